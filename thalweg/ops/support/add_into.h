// SPDX-License-Identifier: Apache-2.0
// Sums of whole tensors, for arrays and lists of tensors.
#pragma once

#include "absl/status/status.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// sum += x, element by element. UNIMPLEMENTED if the type is not numeric. REQUIRES: same type and
// shape, and the memory of `sum` is not shared.
absl::Status AddInto(const Tensor& x, Tensor* sum);

}  // namespace thalweg
