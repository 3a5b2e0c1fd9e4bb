// SPDX-License-Identifier: Apache-2.0
// Which passes make a graph smaller before it is compiled (SessionOptions::optimizer).
#pragma once

#include <cstdint>

namespace thalweg {

// Results stay the same, for every feed, whatever is chosen here.
struct GraphOptimizerOptions {
  bool fold_constants = true;               // replace nodes whose inputs are constants by their values
  bool merge_common_subexpressions = true;  // let nodes that compute the same share one
  // A folded value larger than this, in bytes, and larger than its inputs is not kept
  // as a constant: it would travel with the graph and stay in memory.
  int64_t max_new_bytes = 100 << 10;
  // A folded value larger than this, in bytes, is never kept as a constant.
  int64_t max_constant_bytes = 10 << 20;
};

}  // namespace thalweg
