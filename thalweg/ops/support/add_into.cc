// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/add_into.h"

#include "thalweg/base/simd.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/support/numbers.h"

namespace thalweg {
namespace {

THALWEG_SIMD void AddFloats(const float* x, int64_t n, float* sum) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) sum[i] += x[i];
}

}  // namespace

absl::Status AddInto(const Tensor& x, Tensor* sum) {
  if (x.dtype() == kFloat) {
    AddFloats(x.data<float>(), x.num_elements(), sum->mutable_data<float>());
    return absl::OkStatus();
  }
  return Dispatch(NumberTypes(), x.dtype(), [&]<typename T>() {
    const T* const from = x.data<T>();
    T* const to = sum->mutable_data<T>();
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      if constexpr (std::is_integral_v<T>) {
        to[i] = WrapAdd(to[i], from[i]);
      } else {
        to[i] = static_cast<T>(to[i] + from[i]);
      }
    }
    return absl::OkStatus();
  });
}

}  // namespace thalweg
