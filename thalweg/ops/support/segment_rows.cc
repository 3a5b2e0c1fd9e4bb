// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/segment_rows.h"

#include <algorithm>
#include <limits>

#include "thalweg/base/simd.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/support/elementwise.h"

namespace thalweg {
namespace {

template <typename T>
struct Add {
  static T Identity() { return T(0); }
  static T Of(T a, T b) { return static_cast<T>(a + b); }
};
template <typename T>
struct Multiply {
  static T Identity() { return T(1); }
  static T Of(T a, T b) { return static_cast<T>(a * b); }
};
template <typename T>
struct Highest {
  static T Identity() { return std::numeric_limits<T>::lowest(); }
  static T Of(T a, T b) { return a < b ? b : a; }
};
template <typename T>
struct Lowest {
  static T Identity() { return std::numeric_limits<T>::max(); }
  static T Of(T a, T b) { return b < a ? b : a; }
};

template <template <typename> typename R, typename T>
[[gnu::always_inline]] inline void Combine(const void* from, void* to, int64_t n) {
  const T* const f = static_cast<const T*>(from);
  T* const t = static_cast<T*>(to);
  for (int64_t i = 0; i < n; ++i) t[i] = R<T>::Of(t[i], f[i]);
}
template <template <typename> typename R, typename T>
THALWEG_SIMD void HotCombine(const void* from, void* to, int64_t n) {
  Combine<R, T>(from, to, n);
}
template <template <typename> typename R, typename T>
void PlainCombine(const void* from, void* to, int64_t n) {
  Combine<R, T>(from, to, n);
}

// The combining function, and if `fill` is given, that with identities.
template <template <typename> typename R, typename List>
absl::Status Find(List types, DType dtype, CombineRow* combine, Tensor* fill) {
  return Dispatch(types, dtype, [&]<typename T>() {
    if (combine != nullptr) {
      if constexpr (kIsHot<T>) {
        *combine = HotCombine<R, T>;
      } else {
        *combine = PlainCombine<R, T>;
      }
    }
    if (fill != nullptr) std::fill_n(fill->mutable_data<T>(), fill->num_elements(), R<T>::Identity());
    return absl::OkStatus();
  });
}

absl::Status Find(SegmentReduction reduction, DType dtype, CombineRow* combine, Tensor* fill) {
  switch (reduction) {
    case SegmentReduction::kSum:
      return Find<Add>(NumberTypes(), dtype, combine, fill);
    case SegmentReduction::kProd:
      return Find<Multiply>(NumberTypes(), dtype, combine, fill);
    case SegmentReduction::kMax:
      return Find<Highest>(RealTypes(), dtype, combine, fill);
    case SegmentReduction::kMin:
      return Find<Lowest>(RealTypes(), dtype, combine, fill);
  }
  return Internal("no such reduction");
}

template <typename T>
THALWEG_SIMD void DivideBy(void* to, double divisor, int64_t n) {
  T* const t = static_cast<T*>(to);
  const T d = static_cast<T>(divisor);
  for (int64_t i = 0; i < n; ++i) t[i] = static_cast<T>(t[i] / d);
}

template <typename T>
THALWEG_SIMD void AddScaled(const void* from, double scale, void* to, int64_t n) {
  using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const T* const f = static_cast<const T*>(from);
  T* const t = static_cast<T*>(to);
  const Compute by = static_cast<Compute>(scale);
  for (int64_t i = 0; i < n; ++i) t[i] = static_cast<T>(static_cast<Compute>(t[i]) + by * static_cast<Compute>(f[i]));
}

}  // namespace

absl::StatusOr<DivideRow> FindDivideRow(DType dtype) {
  DivideRow divide = nullptr;
  RETURN_IF_ERROR(Dispatch(NumberTypes(), dtype, [&]<typename T>() {
    divide = DivideBy<T>;
    return absl::OkStatus();
  }));
  return divide;
}

absl::StatusOr<AddScaledRow> FindAddScaledRow(DType dtype) {
  AddScaledRow add = nullptr;
  RETURN_IF_ERROR(Dispatch(FloatTypes(), dtype, [&]<typename T>() {
    add = AddScaled<T>;
    return absl::OkStatus();
  }));
  return add;
}

absl::StatusOr<CombineRow> FindCombineRow(SegmentReduction reduction, DType dtype) {
  CombineRow combine = nullptr;
  RETURN_IF_ERROR(Find(reduction, dtype, &combine, nullptr));
  return combine;
}

absl::Status FillWithIdentity(SegmentReduction reduction, Tensor* t) { return Find(reduction, t->dtype(), nullptr, t); }

}  // namespace thalweg
