// SPDX-License-Identifier: Apache-2.0
// Sums and zeros of tensors of numbers, lists and maps of tensors, and optionals. Gradients of loops and
// conditionals are such values.
#pragma once

#include "absl/status/statusor.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// A tensor without a value counts as zeros.
absl::StatusOr<Tensor> AddTensors(const Tensor& a, const Tensor& b);
absl::StatusOr<Tensor> ZerosLike(const Tensor& x);

}  // namespace thalweg
