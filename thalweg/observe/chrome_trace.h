// SPDX-License-Identifier: Apache-2.0
// Traces of steps in the format of Chrome's about:tracing and ui.perfetto.dev.
#pragma once

#include <string>

#include "thalweg/graph/run_metadata.h"

namespace thalweg {

// The trace of a step (RunOptions::trace) as JSON text: a process for each device, a
// row for each thread, a bar for each node that ran.
std::string ChromeTrace(const RunMetadata& metadata);

}  // namespace thalweg
