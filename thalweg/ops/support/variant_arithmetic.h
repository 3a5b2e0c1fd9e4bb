// Sums and zeros of tensors of whatever has them: numbers, lists of tensors,
// optionals. Gradients of loops and conditionals are such values.
#pragma once

#include "absl/status/statusor.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// What has no value counts as zeros.
absl::StatusOr<Tensor> AddTensors(const Tensor& a, const Tensor& b);
absl::StatusOr<Tensor> ZerosLike(const Tensor& x);

}  // namespace thalweg
