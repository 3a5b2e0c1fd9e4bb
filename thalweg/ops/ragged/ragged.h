// SPDX-License-Identifier: Apache-2.0
// Ragged tensors: row splits say, level by level, where each row of `values` begins and ends.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// INVALID_ARGUMENT unless the splits begin with 0, do not decrease, and end with `length`.
absl::StatusOr<std::vector<int64_t>> ReadSplits(const Tensor& splits, int64_t length);
// Writes splits to an int32 or int64 tensor of the same length.
absl::Status WriteSplits(absl::Span<const int64_t> splits, Tensor* out);

}  // namespace thalweg
