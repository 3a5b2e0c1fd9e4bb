// SPDX-License-Identifier: Apache-2.0
// Functions that kernels call at run time, such as the function of a MapDataset. Kernels
// cannot see the graph's function library, so a node that names a function carries its
// body, as a GraphDef in the attribute "_graph_of_<attr>".
//
// The body has an _Arg per argument, a _Retval per result, no function calls, and a NoOp
// "_effects" with control inputs from the nodes with side effects.
#pragma once

#include "absl/status/status.h"
#include "thalweg/graph/graph.h"

namespace thalweg {

// Attaches the bodies to the nodes of `graph`. NOT_FOUND if a function does not exist,
// UNIMPLEMENTED if one calls itself, RESOURCE_EXHAUSTED if bodies nest too deep or exceed
// `max_bytes` in total. REQUIRES: the calls of `graph` are inlined.
absl::Status EmbedFunctions(Graph& graph, int64_t max_bytes);

}  // namespace thalweg
