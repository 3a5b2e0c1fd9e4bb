// Traces of steps in the format of Chrome's about:tracing and ui.perfetto.dev.
#pragma once

#include <string>

#include "thalweg/proto/step_stats.pb.h"

namespace thalweg {

// A JSON text: a process for each device, a row for each thread, a bar for each
// node that ran.
std::string ChromeTrace(const tensorflow::StepStats& stats);

}  // namespace thalweg
