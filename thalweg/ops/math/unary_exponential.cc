// SPDX-License-Identifier: Apache-2.0
// y = f(x) elementwise: roots, exponentials, logarithms, and the sigmoid and
// tanh that are made of them; with the ops that compute their gradients from y.
#include <cmath>
#include <limits>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/ops/support/numbers.h"
#include "thalweg/ops/support/vector_math.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace thalweg {
namespace {

struct SqrtFn {
  template <typename T>
  T operator()(T x) const {
    return std::sqrt(x);
  }
};
struct RsqrtFn {
  template <typename T>
  T operator()(T x) const {
    return T(1) / std::sqrt(x);
  }
};

#ifdef __x86_64__
// A root and a division keep the divider busy for twice as long as it takes to
// start from the processor's estimate of 12 bits and to take one step of
// Newton's. What has no such step is the estimate itself: 0 and infinity.
[[gnu::target("avx2,fma")]] inline __m256 RsqrtOfEight(__m256 x) {
  const __m256 guess = _mm256_rsqrt_ps(x);
  const __m256 half = _mm256_mul_ps(_mm256_set1_ps(-0.5f), _mm256_mul_ps(x, guess));
  const __m256 better = _mm256_mul_ps(guess, _mm256_fmadd_ps(half, guess, _mm256_set1_ps(1.5f)));
  const __m256 no_step =
      _mm256_or_ps(_mm256_cmp_ps(x, _mm256_set1_ps(std::numeric_limits<float>::min()), _CMP_LT_OQ),
                   _mm256_cmp_ps(x, _mm256_set1_ps(std::numeric_limits<float>::infinity()), _CMP_EQ_OQ));
  return _mm256_blendv_ps(better, guess, no_step);
}
// The rest of fewer than eight goes the same way: a value does not depend on its place.
[[gnu::target("avx2,fma")]] void RsqrtLoop(const void* x, void* y, int64_t n) {
  const float* in = static_cast<const float*>(x);
  float* out = static_cast<float*>(y);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, RsqrtOfEight(_mm256_loadu_ps(in + i)));
  if (i < n) {
    float rest[8] = {};
    std::copy(in + i, in + n, rest);
    _mm256_storeu_ps(rest, RsqrtOfEight(_mm256_loadu_ps(rest)));
    std::copy(rest, rest + (n - i), out + i);
  }
}
#endif

UnaryFn SelectRsqrt(DType dtype) {
  UnaryFn fn = SelectUnary<RsqrtFn, FloatsAndComplex>(dtype);
#ifdef __x86_64__
  if (dtype == kFloat && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) fn.loop = RsqrtLoop;
#endif
  return fn;
}

struct ExpFn {
  static constexpr float kNanos = 1;
  template <typename T>
  T operator()(T x) const {
    if constexpr (kIsComplex<T>)
      return std::exp(x);
    else
      return vec::Exp(x);
  }
};
struct Expm1Fn {
  static constexpr float kNanos = 1.5f;
  template <typename T>
  T operator()(T x) const {
    if constexpr (kIsComplex<T>) {
      // Re: expm1(a) cos(b) + (cos(b) - 1), the last from half the angle.
      const auto sin_half = std::sin(x.imag() / 2);
      const auto real = std::expm1(x.real()) * std::cos(x.imag()) - 2 * sin_half * sin_half;
      return T(real, std::exp(x.real()) * std::sin(x.imag()));
    } else {
      return vec::Expm1(x);
    }
  }
};
struct LogFn {
  static constexpr float kNanos = 1;
  template <typename T>
  T operator()(T x) const {
    if constexpr (kIsComplex<T>)
      return std::log(x);
    else
      return vec::Log(x);
  }
};
struct Log1pFn {
  static constexpr float kNanos = 1.5f;
  template <typename T>
  T operator()(T x) const {
    if constexpr (kIsComplex<T>) {
      // log|1 + x| = log1p(2a + a^2 + b^2) / 2.
      const auto a = x.real(), b = x.imag();
      return T(std::log1p(2 * a + a * a + b * b) / 2, std::atan2(b, 1 + a));
    } else {
      return vec::Log1p(x);
    }
  }
};
struct SigmoidFn {
  static constexpr float kNanos = 1.5f;
  template <typename T>
  T operator()(T x) const {
    if constexpr (kIsComplex<T>)
      return T(1) / (T(1) + std::exp(-x));
    else
      return vec::Sigmoid(x);
  }
};
struct TanhFn {
  static constexpr float kNanos = 1.5f;
  template <typename T>
  T operator()(T x) const {
    if constexpr (kIsComplex<T>)
      return std::tanh(x);
    else
      return vec::Tanh(x);
  }
};

struct SqrtGradFn {
  template <typename T>
  T operator()(T y, T dy) const {
    return WrapMul(T(0.5), dy) / Conjugate(y);
  }
};
struct RsqrtGradFn {
  template <typename T>
  T operator()(T y, T dy) const {
    const T c = Conjugate(y);
    return WrapMul(WrapMul(T(-0.5), dy), WrapMul(WrapMul(c, c), c));
  }
};
// These two get the conjugate of y where it is complex, the two above y itself.
struct SigmoidGradFn {
  template <typename T>
  T operator()(T y, T dy) const {
    return WrapMul(WrapMul(dy, y), T(1) - y);
  }
};
struct TanhGradFn {
  template <typename T>
  T operator()(T y, T dy) const {
    return WrapMul(dy, T(1) - WrapMul(y, y));
  }
};

// dx from y and dy by the op that is made for it.
absl::Status FromOutput(GradientContext& g, absl::string_view op, Output y) {
  g.set_dx(0, Output(g.scope().Add(op, {y, g.dy()})));
  return absl::OkStatus();
}
absl::Status SqrtGradient(GradientContext& g) { return FromOutput(g, "SqrtGrad", g.output(0)); }
absl::Status RsqrtGradient(GradientContext& g) { return FromOutput(g, "RsqrtGrad", g.output(0)); }
absl::Status SigmoidGradient(GradientContext& g) { return FromOutput(g, "SigmoidGrad", Conj(g.scope(), g.output(0))); }
absl::Status TanhGradient(GradientContext& g) { return FromOutput(g, "TanhGrad", Conj(g.scope(), g.output(0))); }

absl::Status ExpGradient(GradientContext& g) {
  g.set_dx(0, Mul(g.scope(), g.dy(), Conj(g.scope(), g.output(0))));
  return absl::OkStatus();
}
absl::Status Expm1Gradient(GradientContext& g) {
  const Scope& s = g.scope();
  g.set_dx(0, Mul(s, g.dy(), Exp(s, Conj(s, g.input(0)))));
  return absl::OkStatus();
}
absl::Status LogGradient(GradientContext& g) {
  const Scope& s = g.scope();
  g.set_dx(0, Mul(s, g.dy(), Reciprocal(s, Conj(s, g.input(0)))));
  return absl::OkStatus();
}
absl::Status Log1pGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output x = Conj(s, g.input(0));
  g.set_dx(0, Mul(s, g.dy(), Reciprocal(s, Add(s, ScalarConst(s, x.dtype(), 1), x))));
  return absl::OkStatus();
}

// z = dy / (2 y).
absl::Status SqrtGradGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output ratio = RealDiv(s, g.dy(), g.input(0));
  g.set_dx(0, Mul(s, Neg(s, Conj(s, ratio)), g.output(0)));
  g.set_dx(1, Mul(s, ScalarConst(s, ratio.dtype(), 0.5), ratio));
  return absl::OkStatus();
}
// z = -dy y^3 / 2.
absl::Status RsqrtGradGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output y = Conj(s, g.input(0)), dz = Conj(s, g.dy());
  g.set_dx(0, Mul(s, Mul(s, Mul(s, ScalarConst(s, y.dtype(), -1.5), dz), g.input(1)), Square(s, y)));
  g.set_dx(1, Output(s.Add("RsqrtGrad", {y, g.dy()})));
  return absl::OkStatus();
}
// z = dy y (1 - y).
absl::Status SigmoidGradGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output y = Conj(s, g.input(0)), both = Mul(s, g.dy(), Conj(s, g.input(1)));
  g.set_dx(0, Sub(s, both, Mul(s, Mul(s, ScalarConst(s, y.dtype(), 2), both), y)));
  g.set_dx(1, Output(s.Add("SigmoidGrad", {y, g.dy()})));
  return absl::OkStatus();
}
// z = dy (1 - y^2).
absl::Status TanhGradGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output y = Conj(s, g.input(0)), dy = Conj(s, g.input(1));
  g.set_dx(0, Mul(s, Mul(s, Mul(s, g.dy(), ScalarConst(s, y.dtype(), -2)), dy), y));
  g.set_dx(1, Output(s.Add("TanhGrad", {y, g.dy()})));
  return absl::OkStatus();
}

const OpRegistration kUnaryExponentialOps[] = {
    UnaryOp("Sqrt").Kernel<UnaryKernel>(SelectUnary<SqrtFn, FloatsAndComplex>).Gradient(SqrtGradient),
    UnaryOp("Rsqrt").Kernel<UnaryKernel>(SelectRsqrt).Gradient(RsqrtGradient),
    UnaryOp("Exp").Kernel<UnaryKernel>(SelectUnary<ExpFn, FloatsAndComplex>).Gradient(ExpGradient),
    UnaryOp("Expm1").Kernel<UnaryKernel>(SelectUnary<Expm1Fn, FloatsAndComplex>).Gradient(Expm1Gradient),
    UnaryOp("Log").Kernel<UnaryKernel>(SelectUnary<LogFn, FloatsAndComplex>).Gradient(LogGradient),
    UnaryOp("Log1p").Kernel<UnaryKernel>(SelectUnary<Log1pFn, FloatsAndComplex>).Gradient(Log1pGradient),
    UnaryOp("Sigmoid").Kernel<UnaryKernel>(SelectUnary<SigmoidFn, FloatsAndComplex>).Gradient(SigmoidGradient),
    UnaryOp("Tanh").Kernel<UnaryKernel>(SelectUnary<TanhFn, FloatsAndComplex>).Gradient(TanhGradient),
    GradientHelperOp("SqrtGrad")
        .Kernel<SameShapeBinaryKernel>(SelectBinary<SqrtGradFn, FloatsAndComplex>)
        .Gradient(SqrtGradGradient),
    GradientHelperOp("RsqrtGrad")
        .Kernel<SameShapeBinaryKernel>(SelectBinary<RsqrtGradFn, FloatsAndComplex>)
        .Gradient(RsqrtGradGradient),
    GradientHelperOp("SigmoidGrad")
        .Kernel<SameShapeBinaryKernel>(SelectBinary<SigmoidGradFn, FloatsAndComplex>)
        .Gradient(SigmoidGradGradient),
    GradientHelperOp("TanhGrad")
        .Kernel<SameShapeBinaryKernel>(SelectBinary<TanhGradFn, FloatsAndComplex>)
        .Gradient(TanhGradGradient),
};

}  // namespace

Output Sqrt(const Scope& s, Output x) { return s.Add("Sqrt", {x}); }
Output Rsqrt(const Scope& s, Output x) { return s.Add("Rsqrt", {x}); }
Output Exp(const Scope& s, Output x) { return s.Add("Exp", {x}); }
Output Expm1(const Scope& s, Output x) { return s.Add("Expm1", {x}); }
Output Log(const Scope& s, Output x) { return s.Add("Log", {x}); }
Output Log1p(const Scope& s, Output x) { return s.Add("Log1p", {x}); }
Output Sigmoid(const Scope& s, Output x) { return s.Add("Sigmoid", {x}); }
Output Tanh(const Scope& s, Output x) { return s.Add("Tanh", {x}); }

}  // namespace thalweg
