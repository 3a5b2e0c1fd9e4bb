// SPDX-License-Identifier: Apache-2.0
// Quotients and remainders, elementwise with broadcasting. Of integers, a zero
// divisor is an error; INT_MIN / -1 wraps around.
#include <cmath>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/ops/support/numbers.h"

namespace thalweg {
namespace {

constexpr char kByZero[] = "Integer division by zero";

// Towards zero.
template <typename T>
inline T TruncatedQuotient(T x, T y) {
  // The one quotient of signed integers that overflows traps in hardware.
  if (std::is_signed_v<T> && y == static_cast<T>(-1)) return WrapNeg(x);
  return static_cast<T>(x / y);
}

// x / y, rounded towards zero for integers.
struct DivFn {
  static constexpr const char* kFailure = kByZero;
  template <typename T>
  requires std::is_integral_v<T> T operator()(T x, T y, bool& failed) const {
    failed |= y == 0;
    return y == 0 ? T(0) : TruncatedQuotient(x, y);
  }
  template <typename T>
  requires(!std::is_integral_v<T>) T operator()(T x, T y) const { return x / y; }
};

// TensorFlow's message for ops whose name does not suggest a division.
struct UnexpectedByZero {
  static constexpr const char* kFailure =
      "Unexpected error in binary operator (only integer div and mod should have errors)";
  static constexpr absl::StatusCode kFailureCode = absl::StatusCode::kInternal;
};

// x / y, rounded towards zero whatever the type.
struct TruncateDivFn : UnexpectedByZero {
  template <typename T>
  requires std::is_integral_v<T> T operator()(T x, T y, bool& failed) const { return DivFn()(x, y, failed); }
  template <typename T>
  requires std::is_floating_point_v<T> T operator()(T x, T y) const { return std::trunc(x / y); }
};

struct FloorDivFn {
  static constexpr const char* kFailure = kByZero;
  template <typename T>
  requires std::is_integral_v<T> T operator()(T x, T y, bool& failed) const {
    failed |= y == 0;
    if (y == 0) return T(0);
    const T q = TruncatedQuotient(x, y);
    if constexpr (std::is_unsigned_v<T>) return q;
    // Rounded the wrong way if there is a remainder of the other sign.
    const T r = y == static_cast<T>(-1) ? T(0) : static_cast<T>(x % y);
    return r != 0 && (r < 0) != (y < 0) ? static_cast<T>(q - 1) : q;
  }
  template <typename T>
  requires std::is_floating_point_v<T> T operator()(T x, T y) const { return std::floor(x / y); }
};

struct DivNoNanFn {
  template <typename T>
  T operator()(T x, T y) const {
    return y == T(0) ? T(0) : x / y;
  }
};

// The result has the sign of x.
struct ModFn {
  static constexpr const char* kFailure = kByZero;
  static constexpr float kNanos = 5;
  template <typename T>
  requires std::is_integral_v<T> T operator()(T x, T y, bool& failed) const {
    failed |= y == 0;
    if (y == 0 || (std::is_signed_v<T> && y == static_cast<T>(-1))) return T(0);
    return static_cast<T>(x % y);
  }
  template <typename T>
  requires std::is_floating_point_v<T> T operator()(T x, T y) const { return std::fmod(x, y); }
};

struct TruncateModFn : UnexpectedByZero {
  static constexpr float kNanos = ModFn::kNanos;
  template <typename T>
  requires std::is_integral_v<T> T operator()(T x, T y, bool& failed) const { return ModFn()(x, y, failed); }
  template <typename T>
  requires std::is_floating_point_v<T> T operator()(T x, T y) const { return ModFn()(x, y); }
};

// The result has the sign of y.
struct FloorModFn {
  static constexpr const char* kFailure = kByZero;
  static constexpr float kNanos = 5;
  template <typename T>
  requires std::is_integral_v<T> T operator()(T x, T y, bool& failed) const {
    const T r = ModFn()(x, y, failed);
    if constexpr (std::is_unsigned_v<T>) return r;
    return r != 0 && (r < 0) != (y < 0) ? static_cast<T>(r + y) : r;
  }
  template <typename T>
  requires std::is_floating_point_v<T> T operator()(T x, T y) const {
    const T r = std::fmod(x, y);
    return r != T(0) && (r < T(0)) != (y < T(0)) ? r + y : r;
  }
};

// dz / y and -dz x / y^2.
absl::Status QuotientGradient(GradientContext& g, absl::string_view divide) {
  const Scope& s = g.scope();
  const Output x = Conj(s, g.input(0)), y = Conj(s, g.input(1));
  const auto quotient = [&](Output a, Output b) { return Output(s.Add(divide, {a, b})); };
  return SetSums(g, quotient(g.dy(), y), Mul(s, g.dy(), quotient(quotient(Neg(s, x), y), y)));
}
absl::Status DivGradient(GradientContext& g) { return QuotientGradient(g, "Div"); }
absl::Status RealDivGradient(GradientContext& g) { return QuotientGradient(g, "RealDiv"); }
absl::Status DivNoNanGradient(GradientContext& g) { return QuotientGradient(g, "DivNoNan"); }

// x - floor(x / y) y: the quotient is constant almost everywhere.
absl::Status FloorModGradient(GradientContext& g) {
  const Scope& s = g.scope();
  return SetSums(g, g.dy(), Mul(s, g.dy(), Neg(s, FloorDiv(s, g.input(0), g.input(1)))));
}

constexpr char kNumbers[] =
    "bfloat16, half, float, double, uint8, int8, uint16, int16, int32, uint32, uint64, int64, complex64, complex128";

const OpRegistration kBinaryDivisionOps[] = {
    BinaryOp("Div", kNumbers).Kernel<BinaryKernel>(SelectBinary<DivFn, Numbers>).Gradient(DivGradient),
    BinaryOp("RealDiv", kNumbers).Kernel<BinaryKernel>(SelectBinary<DivFn, Numbers>).Gradient(RealDivGradient),
    BinaryOp("TruncateDiv", kNumbers).Kernel<BinaryKernel>(SelectBinary<TruncateDivFn, Reals>).NotDifferentiable(),
    BinaryOp("FloorDiv", kNumbers).Kernel<BinaryKernel>(SelectBinary<FloorDivFn, Reals>).NotDifferentiable(),
    BinaryOp("DivNoNan", "half, float, bfloat16, double, complex64, complex128")
        .Kernel<BinaryKernel>(SelectBinary<DivNoNanFn, FloatsAndComplex>)
        .Gradient(DivNoNanGradient),
    BinaryOp("FloorMod", "int8, int16, int32, int64, uint8, uint16, uint32, uint64, bfloat16, half, float, double")
        .Kernel<BinaryKernel>(SelectBinary<FloorModFn, Reals>)
        .Gradient(FloorModGradient),
    BinaryOp("Mod", "int32, int64, half, half, bfloat16, float, double")
        .Kernel<BinaryKernel>(SelectBinary<ModFn, Types<float, double, int32_t, int64_t>>),
    BinaryOp("TruncateMod", "int32, int64, bfloat16, half, float, double")
        .Kernel<BinaryKernel>(SelectBinary<TruncateModFn, Types<float, double, int32_t, int64_t>>),
};

}  // namespace

Output Div(const Scope& s, Output x, Output y) { return s.Add("Div", {x, y}); }
Output RealDiv(const Scope& s, Output x, Output y) { return s.Add("RealDiv", {x, y}); }
Output FloorDiv(const Scope& s, Output x, Output y) { return s.Add("FloorDiv", {x, y}); }
Output TruncateDiv(const Scope& s, Output x, Output y) { return s.Add("TruncateDiv", {x, y}); }
Output DivNoNan(const Scope& s, Output x, Output y) { return s.Add("DivNoNan", {x, y}); }
Output FloorMod(const Scope& s, Output x, Output y) { return s.Add("FloorMod", {x, y}); }
Output Mod(const Scope& s, Output x, Output y) { return s.Add("Mod", {x, y}); }
Output TruncateMod(const Scope& s, Output x, Output y) { return s.Add("TruncateMod", {x, y}); }

}  // namespace thalweg
