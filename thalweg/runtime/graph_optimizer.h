// SPDX-License-Identifier: Apache-2.0
// Passes that make a graph smaller before it is compiled. Results stay the
// same, for every feed.
#pragma once

#include "absl/status/statusor.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/graph/graph.h"
#include "thalweg/graph/optimizer_options.h"
#include "thalweg/kernel/device.h"

namespace thalweg {

// Replaces nodes whose inputs are all constants by their values. `device` runs
// them. Nodes that fail are left for the step to fail, as are those that need
// more memory than their values may have. Returns how many. `cancellation` ends
// it; may be nullptr.
absl::StatusOr<int> FoldConstants(Graph& graph, Device& device, const GraphOptimizerOptions& options = {},
                                  Cancellation* cancellation = nullptr);

// Lets nodes that do the same to the same inputs share one. Returns how many
// went.
absl::StatusOr<int> MergeCommonSubexpressions(Graph& graph);

// Removes nodes on which no _Retval, no stateful node and no target depends.
// `targets` are names. Returns how many went.
int RemoveDead(Graph& graph, const std::vector<std::string>& targets);

// All of them, in a good order. `targets` must stay.
absl::Status Optimize(Graph& graph, const std::vector<std::string>& targets, Device& device,
                      const GraphOptimizerOptions& options = {}, Cancellation* cancellation = nullptr);

}  // namespace thalweg
