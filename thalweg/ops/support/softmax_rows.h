// SPDX-License-Identifier: Apache-2.0
// Softmax of rows, as softmax ops and losses use it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "thalweg/base/simd.h"
#include "thalweg/ops/support/vector_math.h"

namespace thalweg {

template <typename T>
[[gnu::always_inline]] inline T RowMax(const T* x, int64_t n) {
  constexpr int kLanes = 16;
  T best = x[0];
  int64_t i = 0;
  if (n >= kLanes) {
    T lanes[kLanes];
    for (int l = 0; l < kLanes; ++l) lanes[l] = x[l];
    for (i = kLanes; i + kLanes <= n; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
    }
    for (int l = 0; l < kLanes; ++l) best = lanes[l] > best ? lanes[l] : best;
  }
  for (; i < n; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

template <typename T>
[[gnu::always_inline]] inline T RowSum(const T* x, int64_t n) {
  constexpr int kLanes = 16;
  T sum = 0;
  int64_t i = 0;
  if (n >= kLanes) {
    T lanes[kLanes] = {};
    for (; i + kLanes <= n; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) lanes[l] += x[i + l];
    }
    for (int l = 0; l < kLanes; ++l) sum += lanes[l];
  }
  for (; i < n; ++i) sum += x[i];
  return sum;
}

// y = x less the largest element of its row. y may be x.
template <typename T>
[[gnu::always_inline]] inline void SubtractRowMax(const T* x, T* y, int64_t rows, int64_t classes) {
  for (int64_t r = 0; r < rows; ++r, x += classes, y += classes) {
    const T best = RowMax(x, classes);
#pragma GCC ivdep
    for (int64_t i = 0; i < classes; ++i) y[i] = x[i] - best;
  }
}

// y = exp(x), over many rows at once, because short rows would leave most of a vector register
// unused.
template <typename T>
[[gnu::always_inline]] inline void ExpAll(const T* x, T* y, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = vec::Exp(x[i]);
}

// The number of rows to process at a time: about a thousand elements, which stay in the L1 cache from
// one pass to the next.
inline int64_t RowsAtOnce(int64_t classes) { return std::max<int64_t>(1, 1024 / std::max<int64_t>(classes, 1)); }

}  // namespace thalweg
