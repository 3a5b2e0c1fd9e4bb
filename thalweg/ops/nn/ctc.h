// SPDX-License-Identifier: Apache-2.0
// Shared by the ops of connectionist temporal classification (CTC).
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/status/status.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

template <typename T>
inline constexpr T kLogZero = -std::numeric_limits<T>::infinity();

// log(exp(a) + exp(b))
template <typename T>
T LogSum(T a, T b) {
  if (a == kLogZero<T>) return b;
  if (b == kLogZero<T>) return a;
  return std::max(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
}

// Checks logits [time, batch, classes] and the lengths of the sequences.
absl::Status CheckSequences(const Tensor& inputs, const Tensor& lengths);

}  // namespace thalweg
