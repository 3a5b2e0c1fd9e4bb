// Passes that make a graph smaller before it is compiled. Results stay the
// same, for every feed.
#pragma once

#include "absl/status/statusor.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/graph/graph.h"
#include "thalweg/kernel/device.h"

namespace thalweg {

struct GraphOptimizerOptions {
  bool fold_constants = true;
  bool merge_common_subexpressions = true;
  // Values larger than this and than what they are computed from are not kept as
  // constants: they would travel with the graph, and stay in memory.
  int64_t max_new_bytes = 100 << 10;
  // Nor are values larger than this.
  int64_t max_constant_bytes = 10 << 20;
};

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
