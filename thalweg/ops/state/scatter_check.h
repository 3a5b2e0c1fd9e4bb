// SPDX-License-Identifier: Apache-2.0
// Checks of the inputs of scatter and gather ops on variables.
#pragma once

#include "absl/status/statusor.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// That types agree and updates have the shape indices.shape + params.shape[1:],
// or none.
absl::Status CheckScatter(const Tensor& params, const Tensor& indices, const Tensor& updates);

// `indices` as int64, flat. INVALID_ARGUMENT ("indices[0,1] = 7 is not in
// [0, 5)") unless all are in [0, rows).
absl::StatusOr<Tensor> CheckedRows(KernelContext& context, const Tensor& indices, int64_t rows);

}  // namespace thalweg
