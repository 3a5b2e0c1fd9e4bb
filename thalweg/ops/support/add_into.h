// Sums of whole tensors, for what collects them: arrays and lists of tensors.
#pragma once

#include "absl/status/status.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// sum += x, element by element. UNIMPLEMENTED if they are no numbers.
// REQUIRES: one type and shape, and nobody else sees the memory of `sum`.
absl::Status AddInto(const Tensor& x, Tensor* sum);

}  // namespace thalweg
