// SPDX-License-Identifier: Apache-2.0
// Special functions, which are computed in double for all types.
#pragma once

#include <limits>

#include "absl/strings/string_view.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/support/elementwise.h"

namespace thalweg {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <double (*F)(double), int nanos>
struct InDouble {
  static constexpr float kNanos = nanos;
  template <typename T>
  T operator()(T x) const {
    return static_cast<T>(F(x));
  }
};

// The elementwise op of F, which takes about `nanos` nanoseconds per element.
template <double (*F)(double), int nanos>
Op SpecialFunction(absl::string_view name, GradientFn gradient) {
  return Op(name)
      .Input("x: T")
      .Output("y: T")
      .Attr("T: {bfloat16, half, float, double}")
      .Shape(shapes::LikeInput0)
      .Kernel<UnaryKernel>(SelectUnary<InDouble<F, nanos>, Floats>)
      .Gradient(gradient);
}

}  // namespace thalweg
