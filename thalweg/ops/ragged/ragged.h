// Ragged tensors: the rows of `values` that belong together are given by the
// places where they begin and end, level by level.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// INVALID_ARGUMENT unless they begin with 0, never fall and end with `length`.
absl::StatusOr<std::vector<int64_t>> ReadSplits(const Tensor& splits, int64_t length);
// Into a tensor of as many int32 or int64.
absl::Status WriteSplits(absl::Span<const int64_t> splits, Tensor* out);

}  // namespace thalweg
