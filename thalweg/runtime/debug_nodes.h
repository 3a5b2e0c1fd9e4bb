// SPDX-License-Identifier: Apache-2.0
// Adds the nodes with which TensorFlow's debugger (tfdbg) watches tensors of a step.
#pragma once

#include "absl/status/status.h"
#include "thalweg/graph/graph.h"

namespace tensorflow {
class DebugOptions;
}

namespace thalweg {

// Whether a tensor is watched at all.
bool WatchesTensors(const tensorflow::DebugOptions& options);

// Adds a Copy node and the requested debug ops for every watched output that `graph` has, with
// TensorFlow's names: "__copy_node_0" and "__dbg_node:0_0_DebugIdentity". Nodes that use a
// watched reference variable run after its debug ops, so that these see the value before an
// update. FAILED_PRECONDITION for malformed watches and for debug ops that do not take the
// tensor's type, unless the watch tolerates that. REQUIRES: the nodes are placed.
absl::Status InsertDebugNodes(const tensorflow::DebugOptions& options, Graph& graph);

}  // namespace thalweg
