// SPDX-License-Identifier: Apache-2.0
// y = f(x) elementwise: trigonometric and hyperbolic functions and their
// inverses.
#include <algorithm>
#include <cmath>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/ops/support/numbers.h"
#include "thalweg/ops/support/vector_math.h"

namespace thalweg {
namespace {

// Processes a block of floats at a time: with the vectorized function if all are in its range,
// otherwise with libm.
template <float (*fast)(float), float (*exact)(float)>
THALWEG_SIMD void AngleLoop(const void* x, void* y, int64_t n) {
  constexpr int64_t kBlock = 128;
  const float* in = static_cast<const float*>(x);
  float* out = static_cast<float*>(y);
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(n, begin + kBlock);
    int large = 0;
    for (int64_t i = begin; i < end; ++i) large |= std::fabs(in[i]) <= vec::kLargestAngle ? 0 : 1;
    if (large != 0) {
      for (int64_t i = begin; i < end; ++i) out[i] = exact(in[i]);
      continue;
    }
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i) out[i] = fast(in[i]);
  }
}

// libm's functions, some 10 ns each.
struct SinFn {
  static constexpr float kNanos = 8;
  template <typename T>
  T operator()(T x) const {
    return std::sin(x);
  }
};
struct CosFn {
  static constexpr float kNanos = 8;
  template <typename T>
  T operator()(T x) const {
    return std::cos(x);
  }
};
struct TanFn {
  static constexpr float kNanos = 12;
  template <typename T>
  T operator()(T x) const {
    return std::tan(x);
  }
};
struct AsinFn {
  static constexpr float kNanos = 8;
  template <typename T>
  T operator()(T x) const {
    return std::asin(x);
  }
};
struct AcosFn {
  static constexpr float kNanos = 8;
  template <typename T>
  T operator()(T x) const {
    return std::acos(x);
  }
};
struct AtanFn {
  static constexpr float kNanos = 8;
  template <typename T>
  T operator()(T x) const {
    return std::atan(x);
  }
};
struct SinhFn {
  static constexpr float kNanos = 12;
  template <typename T>
  T operator()(T x) const {
    return std::sinh(x);
  }
};
struct CoshFn {
  static constexpr float kNanos = 12;
  template <typename T>
  T operator()(T x) const {
    return std::cosh(x);
  }
};
struct AsinhFn {
  static constexpr float kNanos = 15;
  template <typename T>
  T operator()(T x) const {
    return std::asinh(x);
  }
};
struct AcoshFn {
  static constexpr float kNanos = 15;
  template <typename T>
  T operator()(T x) const {
    return std::acosh(x);
  }
};
struct AtanhFn {
  static constexpr float kNanos = 15;
  template <typename T>
  T operator()(T x) const {
    return std::atanh(x);
  }
};

UnaryFn SelectSin(DType dtype) {
  if (dtype == kFloat) return {AngleLoop<vec::Sin, sinf>, 1};
  return SelectUnary<SinFn, FloatsAndComplex>(dtype);
}
UnaryFn SelectCos(DType dtype) {
  if (dtype == kFloat) return {AngleLoop<vec::Cos, cosf>, 1};
  return SelectUnary<CosFn, FloatsAndComplex>(dtype);
}

Output One(const Scope& s, Output like) { return ScalarConst(s, like.dtype(), 1); }

absl::Status SinGradient(GradientContext& g) {
  const Scope& s = g.scope();
  g.set_dx(0, Mul(s, g.dy(), Cos(s, Conj(s, g.input(0)))));
  return absl::OkStatus();
}
absl::Status CosGradient(GradientContext& g) {
  const Scope& s = g.scope();
  g.set_dx(0, Mul(s, Neg(s, g.dy()), Sin(s, Conj(s, g.input(0)))));
  return absl::OkStatus();
}
// 1 / cos^2.
absl::Status TanGradient(GradientContext& g) {
  const Scope& s = g.scope();
  g.set_dx(0, Mul(s, Square(s, Reciprocal(s, Cos(s, Conj(s, g.input(0))))), g.dy()));
  return absl::OkStatus();
}
// 1 / sqrt(1 - x^2).
Output AsinSlope(const Scope& s, Output x) { return Reciprocal(s, Sqrt(s, Sub(s, One(s, x), Square(s, x)))); }
absl::Status AsinGradient(GradientContext& g) {
  const Scope& s = g.scope();
  g.set_dx(0, Mul(s, g.dy(), AsinSlope(s, Conj(s, g.input(0)))));
  return absl::OkStatus();
}
absl::Status AcosGradient(GradientContext& g) {
  const Scope& s = g.scope();
  g.set_dx(0, Mul(s, Neg(s, g.dy()), AsinSlope(s, Conj(s, g.input(0)))));
  return absl::OkStatus();
}
absl::Status AtanGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output x = Conj(s, g.input(0));
  g.set_dx(0, Mul(s, g.dy(), Reciprocal(s, Add(s, One(s, x), Square(s, x)))));
  return absl::OkStatus();
}
absl::Status SinhGradient(GradientContext& g) {
  const Scope& s = g.scope();
  g.set_dx(0, Mul(s, g.dy(), Cosh(s, Conj(s, g.input(0)))));
  return absl::OkStatus();
}
absl::Status CoshGradient(GradientContext& g) {
  const Scope& s = g.scope();
  g.set_dx(0, Mul(s, g.dy(), Sinh(s, Conj(s, g.input(0)))));
  return absl::OkStatus();
}
absl::Status AsinhGradient(GradientContext& g) {
  const Scope& s = g.scope();
  g.set_dx(0, RealDiv(s, g.dy(), Cosh(s, Conj(s, g.output(0)))));
  return absl::OkStatus();
}
absl::Status AcoshGradient(GradientContext& g) {
  const Scope& s = g.scope();
  g.set_dx(0, RealDiv(s, g.dy(), Sinh(s, Conj(s, g.output(0)))));
  return absl::OkStatus();
}
absl::Status AtanhGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output x = Conj(s, g.input(0));
  g.set_dx(0, Mul(s, g.dy(), Reciprocal(s, Sub(s, One(s, x), Square(s, x)))));
  return absl::OkStatus();
}

const OpRegistration kUnaryTrigonometricOps[] = {
    UnaryOp("Sin").Kernel<UnaryKernel>(SelectSin).Gradient(SinGradient),
    UnaryOp("Cos").Kernel<UnaryKernel>(SelectCos).Gradient(CosGradient),
    UnaryOp("Tan").Kernel<UnaryKernel>(SelectUnary<TanFn, FloatsAndComplex>).Gradient(TanGradient),
    UnaryOp("Asin").Kernel<UnaryKernel>(SelectUnary<AsinFn, FloatsAndComplex>).Gradient(AsinGradient),
    UnaryOp("Acos").Kernel<UnaryKernel>(SelectUnary<AcosFn, FloatsAndComplex>).Gradient(AcosGradient),
    UnaryOp("Atan").Kernel<UnaryKernel>(SelectUnary<AtanFn, FloatsAndComplex>).Gradient(AtanGradient),
    UnaryOp("Sinh").Kernel<UnaryKernel>(SelectUnary<SinhFn, FloatsAndComplex>).Gradient(SinhGradient),
    UnaryOp("Cosh").Kernel<UnaryKernel>(SelectUnary<CoshFn, FloatsAndComplex>).Gradient(CoshGradient),
    UnaryOp("Asinh").Kernel<UnaryKernel>(SelectUnary<AsinhFn, FloatsAndComplex>).Gradient(AsinhGradient),
    UnaryOp("Acosh").Kernel<UnaryKernel>(SelectUnary<AcoshFn, FloatsAndComplex>).Gradient(AcoshGradient),
    UnaryOp("Atanh").Kernel<UnaryKernel>(SelectUnary<AtanhFn, FloatsAndComplex>).Gradient(AtanhGradient),
};

}  // namespace

Output Sin(const Scope& s, Output x) { return s.Add("Sin", {x}); }
Output Cos(const Scope& s, Output x) { return s.Add("Cos", {x}); }
Output Tan(const Scope& s, Output x) { return s.Add("Tan", {x}); }
Output Asin(const Scope& s, Output x) { return s.Add("Asin", {x}); }
Output Acos(const Scope& s, Output x) { return s.Add("Acos", {x}); }
Output Atan(const Scope& s, Output x) { return s.Add("Atan", {x}); }
Output Sinh(const Scope& s, Output x) { return s.Add("Sinh", {x}); }
Output Cosh(const Scope& s, Output x) { return s.Add("Cosh", {x}); }
Output Asinh(const Scope& s, Output x) { return s.Add("Asinh", {x}); }
Output Acosh(const Scope& s, Output x) { return s.Add("Acosh", {x}); }
Output Atanh(const Scope& s, Output x) { return s.Add("Atanh", {x}); }

}  // namespace thalweg
