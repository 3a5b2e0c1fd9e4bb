// SPDX-License-Identifier: Apache-2.0
// Runs nodes one after the other in topological order, without a plan and without
// threads. Used for constant folding and for tests of ops.
#pragma once

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "thalweg/graph/graph.h"
#include "thalweg/kernel/device.h"
#include "thalweg/kernel/kernel.h"

namespace thalweg {

// Runs the kernel of one node on `inputs`. UNIMPLEMENTED for async kernels.
// `cancellation` may be nullptr.
absl::StatusOr<std::vector<Tensor>> RunNode(const Node& node, const std::vector<Tensor>& inputs, Device& device,
                                            Cancellation* cancellation = nullptr);

// Computes `fetches` from `feeds`. Variables live in the device's resources.
// UNIMPLEMENTED if a needed node waits or is control flow.
absl::StatusOr<std::vector<Tensor>> Evaluate(const Graph& graph, const absl::flat_hash_map<Output, Tensor>& feeds,
                                             const std::vector<Output>& fetches, Device& device);

// Wraps the error of a node as every runtime does: "message\n\t [[{{node name}}]]".
absl::Status NodeError(const absl::Status& status, const Node& node);

// Reads the value of a variable for a node that takes a value. FAILED_PRECONDITION
// ("Attempting to use uninitialized value v") if it has none.
absl::Status ReadVariable(const Variable& variable, Tensor* value);

}  // namespace thalweg
