// SPDX-License-Identifier: Apache-2.0
// The recorded steps of a job as a Chrome trace (chrome://tracing, ui.perfetto.dev).
#pragma once

#include <string>

#include "thalweg/proto/monitor.pb.h"

namespace thalweg {

// One row per task for whole steps and one for parts, with the phases of each part inside.
// All times are on the clock of the task that asked: the estimated offset of each task is
// subtracted, and stands with its error in the name of the task. A step has the same id in
// all tasks.
std::string ChromeTraceOfSteps(const JobStatus& job);

}  // namespace thalweg
