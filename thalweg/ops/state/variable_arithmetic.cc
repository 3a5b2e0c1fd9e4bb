// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/state/variable_arithmetic.h"

#include <functional>

#include "thalweg/base/simd.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/state/variable_update.h"

namespace thalweg {
namespace {

// out may be a itself.
template <typename T, typename F>
THALWEG_SIMD void Combine(const T* a, const T* b, T* out, int64_t n, F f) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(f(a[i], b[i]));
}

template <typename F>
absl::Status UpdateVariable(KernelContext& context, Variable& variable, absl::string_view mismatch, F f) {
  const Tensor& update = context.input(1);
  return variable.Update([&](Tensor& value) -> absl::Status {
    RETURN_IF_ERROR(CheckInitialized(variable, value));
    if (value.dtype() != update.dtype()) {
      return InvalidArgument("DType of variable handle: ", value.dtype(), " and dtype of value: ", update.dtype(),
                             " do not match");
    }
    if (!(value.shape() == update.shape())) {
      if (!mismatch.empty()) return InvalidArgument(mismatch);
      return InvalidArgument("Cannot update variable with shape ", value.shape(), " using a Tensor with shape ",
                             update.shape(), ", shapes must be equal.");
    }
    InPlaceOrNew place;
    RETURN_IF_ERROR(place.Prepare(context, value));
    RETURN_IF_ERROR(Dispatch(NumberTypes(), value.dtype(), [&]<typename T>() {
      const T* a = value.data<T>();
      const T* b = update.data<T>();
      T* out = place.target().mutable_data<T>();
      context.ParallelFor(value.num_elements(), 0.25, [&](int64_t begin, int64_t end) {
        Combine(a + begin, b + begin, out + begin, end - begin, f);
      });
      return absl::OkStatus();
    }));
    place.Commit();
    return absl::OkStatus();
  });
}

}  // namespace

absl::Status AddToVariable(KernelContext& context, Variable& variable, absl::string_view mismatch) {
  return UpdateVariable(context, variable, mismatch, std::plus<>());
}

absl::Status SubtractFromVariable(KernelContext& context, Variable& variable, absl::string_view mismatch) {
  return UpdateVariable(context, variable, mismatch, std::minus<>());
}

}  // namespace thalweg
