// Functions that kernels call while they run, such as that of MapDataset. A node
// that names one carries its body with it, as a GraphDef in the attribute
// "_graph_of_<attr>": kernels know no library.
//
// The body has an _Arg for every argument, a _Retval for every result, no calls,
// and a NoOp "_effects" that waits for what has effects.
#pragma once

#include "absl/status/status.h"
#include "thalweg/graph/graph.h"

namespace thalweg {

// REQUIRES: the calls of `graph` are inlined. NOT_FOUND if there is no such
// function, UNIMPLEMENTED if one calls itself, RESOURCE_EXHAUSTED if bodies are
// nested too deep, or have more than `max_bytes` all together.
absl::Status EmbedFunctions(Graph& graph, int64_t max_bytes);

}  // namespace thalweg
