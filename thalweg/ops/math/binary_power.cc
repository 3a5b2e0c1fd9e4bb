// SPDX-License-Identifier: Apache-2.0
// Powers, angles, and products with logarithms that are 0 where a factor is;
// elementwise with broadcasting.
#include <cmath>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/ops/support/numbers.h"
#include "thalweg/ops/support/vector_math.h"

namespace thalweg {
namespace {

// Integer powers by repeated squaring. REQUIRES: the exponent is not negative.
struct PowFn {
  static constexpr float kNanos = 20;
  static constexpr const char* kFailure = "Integers to negative integer powers are not allowed";
  template <typename T>
  requires std::is_integral_v<T> T operator()(T x, T y, bool& failed) const {
    failed |= y < 0;
    T result = 1;
    for (; y > 0; y = static_cast<T>(y >> 1), x = WrapMul(x, x)) {
      if (y & 1) result = WrapMul(result, x);
    }
    return result;
  }
  template <typename T>
  requires(!std::is_integral_v<T>) T operator()(T x, T y) const { return std::pow(x, y); }
};
struct Atan2Fn {
  static constexpr float kNanos = 20;
  template <typename T>
  T operator()(T y, T x) const {
    return std::atan2(y, x);
  }
};
struct XdivyFn {
  template <typename T>
  T operator()(T x, T y) const {
    return x == T(0) ? T(0) : x / y;
  }
};
// 0 where x is, also where the logarithm is infinite.
template <typename T>
T TimesLog(T x, T log) {
  const T product = x * log;
  return x == T(0) ? T(0) : product;
}
struct XlogyFn {
  static constexpr float kNanos = 2;
  template <typename T>
  static T LogOf(T y) {
    if constexpr (kIsComplex<T>) {
      return std::log(y);
    } else {
      return vec::Log(y);
    }
  }
  template <typename T>
  T operator()(T x, T y) const {
    return TimesLog(x, LogOf(y));
  }
};
struct Xlog1pyFn {
  static constexpr float kNanos = 2;
  template <typename T>
  static T LogOf(T y) {
    if constexpr (kIsComplex<T>) {
      return std::log(T(1) + y);
    } else {
      return vec::Log1p(y);
    }
  }
  template <typename T>
  T operator()(T x, T y) const {
    return TimesLog(x, LogOf(y));
  }
};
// In half precision TensorFlow rounds the logarithm before it multiplies.
template <typename F, typename Precision>
struct RoundedLogFn {
  static constexpr float kNanos = F::kNanos;
  float operator()(float x, float y) const { return TimesLog(x, static_cast<float>(Precision(F::LogOf(y)))); }
};
template <typename F>
BinaryFn SelectTimesLog(DType dtype) {
  if (dtype == kHalf) return SelectBinary<RoundedLogFn<F, Half>, Types<float>>(kFloat);
  if (dtype == kBfloat16) return SelectBinary<RoundedLogFn<F, BFloat16>, Types<float>>(kFloat);
  return SelectBinary<F, FloatsAndComplex>(dtype);
}
struct NextAfterFn {
  static constexpr float kNanos = 5;
  template <typename T>
  T operator()(T x, T y) const {
    return std::nextafter(x, y);
  }
};

// y x^(y-1) and z log(x); the logarithm counts as 0 where it has no value.
absl::Status PowGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output x = Conj(s, g.input(0)), y = Conj(s, g.input(1)), z = Conj(s, g.output(0));
  const DType t = x.dtype();
  const Output zero = ScalarConst(s, t, 0), one = ScalarConst(s, t, 1);
  const Output has_log = IsComplex(t) ? NotEqual(s, x, zero) : Greater(s, x, zero);
  const Output safe_x = Select(s, has_log, x, Output(s.Add("OnesLike", {x})));
  const Output log_x = Select(s, has_log, Log(s, safe_x), Output(s.Add("ZerosLike", {x})));
  return SetSums(g, Mul(s, Mul(s, g.dy(), y), Pow(s, x, Sub(s, y, one))), Mul(s, Mul(s, g.dy(), z), log_x));
}

// Arguments are (y, x).
absl::Status Atan2Gradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output y = g.input(0), x = g.input(1);
  const Output scaled = RealDiv(s, g.dy(), Add(s, Square(s, x), Square(s, y)));
  return SetSums(g, Mul(s, x, scaled), Mul(s, Neg(s, y), scaled));
}

// 1 where x is not 0, else 0.
Output NotZero(const Scope& s, Output x) { return Cast(s, NotEqual(s, x, ScalarConst(s, x.dtype(), 0)), x.dtype()); }

absl::Status XdivyGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output x = Conj(s, g.input(0)), y = Conj(s, g.input(1));
  return SetSums(g, Mul(s, Xdivy(s, NotZero(s, x), y), g.dy()), Mul(s, Xdivy(s, Neg(s, x), Square(s, y)), g.dy()));
}
absl::Status XlogyGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output x = Conj(s, g.input(0)), y = Conj(s, g.input(1));
  return SetSums(g, Mul(s, Xlogy(s, NotZero(s, x), y), g.dy()), Mul(s, Xdivy(s, x, y), g.dy()));
}
absl::Status Xlog1pyGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output x = Conj(s, g.input(0)), y = Conj(s, g.input(1));
  const Output shifted = Add(s, y, ScalarConst(s, y.dtype(), 1));
  return SetSums(g, Mul(s, Xlog1py(s, NotZero(s, x), y), g.dy()), Mul(s, Xdivy(s, x, shifted), g.dy()));
}
absl::Status NextAfterGradient(GradientContext& g) {
  const Scope& s = g.scope();
  return SetSums(g, g.dy(), s.Add("ZerosLike", {g.dy()}));
}

const OpRegistration kBinaryPowerOps[] = {
    BinaryOp("Pow", "bfloat16, float, half, double, int8, int16, int32, int64, complex64, complex128")
        .Kernel<BinaryKernel>(SelectBinary<PowFn, Types<float, double, int8_t, int16_t, int32_t, int64_t,
                                                        std::complex<float>, std::complex<double>>>)
        .Gradient(PowGradient),
    Op("Atan2")
        .Input("y: T")
        .Input("x: T")
        .Output("z: T")
        .Attr("T: {bfloat16, half, float, double}")
        .Shape(shapes::Broadcast)
        .Kernel<BinaryKernel>(SelectBinary<Atan2Fn, Floats>)
        .Gradient(Atan2Gradient),
    BinaryOp("Xdivy", "half, bfloat16, float, double, complex64, complex128")
        .Kernel<BinaryKernel>(SelectBinary<XdivyFn, FloatsAndComplex>)
        .Gradient(XdivyGradient),
    BinaryOp("Xlogy", "half, bfloat16, float, double, complex64, complex128")
        .Kernel<BinaryKernel>(SelectTimesLog<XlogyFn>)
        .Gradient(XlogyGradient),
    BinaryOp("Xlog1py", "half, bfloat16, float, double, complex64, complex128")
        .Kernel<BinaryKernel>(SelectTimesLog<Xlog1pyFn>)
        .Gradient(Xlog1pyGradient),
    Op("NextAfter")
        .Input("x1: T")
        .Input("x2: T")
        .Output("output: T")
        .Attr("T: {double, float} = DT_FLOAT")
        .Shape(shapes::Broadcast)
        .Kernel<BinaryKernel>(SelectBinary<NextAfterFn, Floats>)
        .Gradient(NextAfterGradient),
};

}  // namespace

Output Pow(const Scope& s, Output x, Output y) { return s.Add("Pow", {x, y}); }
Output Atan2(const Scope& s, Output y, Output x) { return s.Add("Atan2", {y, x}); }
Output Xdivy(const Scope& s, Output x, Output y) { return s.Add("Xdivy", {x, y}); }
Output Xlogy(const Scope& s, Output x, Output y) { return s.Add("Xlogy", {x, y}); }
Output Xlog1py(const Scope& s, Output x, Output y) { return s.Add("Xlog1py", {x, y}); }
Output NextAfter(const Scope& s, Output x1, Output x2) { return s.Add("NextAfter", {x1, x2}); }

}  // namespace thalweg
