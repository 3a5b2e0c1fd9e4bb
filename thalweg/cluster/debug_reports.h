// SPDX-License-Identifier: Apache-2.0
// Files that tfdbg reads about a watched step besides its tensors.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "thalweg/graph/graph.h"
#include "thalweg/runtime/subgraph.h"

namespace tensorflow {
class DebugOptions;
}

namespace thalweg {

// Writes the graph of this task, with its debug nodes, below each folder of the watches, for
// every device that it uses.
absl::Status PublishDebugGraph(const tensorflow::DebugOptions& options, const Graph& graph);

// Writes the names of feeds, fetches and targets. `index` counts the watched steps of the session.
absl::Status PublishDebuggedStep(const tensorflow::DebugOptions& options, int64_t index, const Signature& signature);

}  // namespace thalweg
