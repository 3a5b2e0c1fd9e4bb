// SPDX-License-Identifier: Apache-2.0
// y = f(x) elementwise: signs, powers, rounding and bits.
#include <bit>
#include <cmath>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/ops/support/numbers.h"

namespace thalweg {
namespace {

using SignedReals = Types<float, double, int8_t, int16_t, int32_t, int64_t>;
using SignedNumbers =
    Types<float, double, int8_t, int16_t, int32_t, int64_t, std::complex<float>, std::complex<double>>;

struct AbsFn {
  template <typename T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::fabs(x);
    return x < T(0) ? WrapNeg(x) : x;
  }
};
struct NegFn {
  template <typename T>
  T operator()(T x) const {
    return WrapNeg(x);
  }
};
struct ReciprocalFn {
  template <typename T>
  T operator()(T x) const {
    return T(1) / x;
  }
};
struct SquareFn {
  template <typename T>
  T operator()(T x) const {
    return WrapMul(x, x);
  }
};
// NaN stays NaN; of a complex number, the point of the unit circle in its
// direction.
struct SignFn {
  template <typename T>
  T operator()(T x) const {
    if constexpr (kIsComplex<T>) {
      const auto r = std::abs(x);
      return r == 0 ? T(0) : x / r;
    } else {
      return x > T(0) ? T(1) : x < T(0) ? T(-1) : x == T(0) ? T(0) : x;
    }
  }
};
struct FloorFn {
  template <typename T>
  T operator()(T x) const {
    return std::floor(x);
  }
};
struct CeilFn {
  template <typename T>
  T operator()(T x) const {
    return std::ceil(x);
  }
};
// Halves go to the even neighbour. Integers are round.
struct RoundFn {
  template <typename T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::nearbyint(x);
    return x;
  }
};
struct IsNanFn {
  template <typename T>
  bool operator()(T x) const {
    return x != x;
  }
};
struct IsInfFn {
  template <typename T>
  bool operator()(T x) const {
    return std::fabs(x) == std::numeric_limits<T>::infinity();
  }
};
struct IsFiniteFn {
  template <typename T>
  bool operator()(T x) const {
    return std::fabs(x) < std::numeric_limits<T>::infinity();
  }
};
struct LogicalNotFn {
  bool operator()(bool x) const { return !x; }
};
struct InvertFn {
  template <typename T>
  T operator()(T x) const {
    return static_cast<T>(~x);
  }
};
struct PopulationCountFn {
  template <typename T>
  uint8_t operator()(T x) const {
    return static_cast<uint8_t>(std::popcount(static_cast<std::make_unsigned_t<T>>(x)));
  }
};
// d(1/x)/dx = -y^2.
struct ReciprocalGradFn {
  template <typename T>
  T operator()(T y, T dy) const {
    const T c = Conjugate(y);
    return WrapMul(WrapMul(-c, c), dy);
  }
};

absl::Status AbsGradient(GradientContext& g) {
  g.set_dx(0, Mul(g.scope(), g.dy(), Sign(g.scope(), g.input(0))));
  return absl::OkStatus();
}
absl::Status NegGradient(GradientContext& g) {
  g.set_dx(0, Neg(g.scope(), g.dy()));
  return absl::OkStatus();
}
absl::Status ReciprocalGradient(GradientContext& g) {
  g.set_dx(0, Output(g.scope().Add("ReciprocalGrad", {g.output(0), g.dy()})));
  return absl::OkStatus();
}
// z = -dy y^2.
absl::Status ReciprocalGradGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output y = Conj(s, g.input(0)), dz = Conj(s, g.dy());
  g.set_dx(0, Mul(s, Mul(s, Mul(s, dz, ScalarConst(s, y.dtype(), -2)), g.input(1)), y));
  g.set_dx(1, Output(s.Add("ReciprocalGrad", {y, g.dy()})));
  return absl::OkStatus();
}
absl::Status SquareGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output x = Conj(s, g.input(0));
  g.set_dx(0, Mul(s, g.dy(), Mul(s, x, ScalarConst(s, x.dtype(), 2))));
  return absl::OkStatus();
}
absl::Status ZeroGradient(GradientContext& g) {
  g.set_dx(0, Output(g.scope().Add("ZerosLike", {g.input(0)})));
  return absl::OkStatus();
}

Op Predicate(absl::string_view name) {
  return Op(name)
      .Input("x: T")
      .Output("y: bool")
      .Attr("T: {bfloat16, half, float, double}")
      .Shape(shapes::LikeInput0)
      .NotDifferentiable();
}

constexpr char kFloats[] = "bfloat16, half, float, double";
constexpr char kIntegers[] = "int8, int16, int32, int64, uint8, uint16, uint32, uint64";
constexpr char kSigned[] = "bfloat16, half, float, double, int8, int16, int32, int64";
constexpr char kSignedAndComplex[] = "bfloat16, half, float, double, int8, int16, int32, int64, complex64, complex128";

const OpRegistration kUnaryArithmeticOps[] = {
    UnaryOp("Abs", kSigned).Kernel<UnaryKernel>(SelectUnary<AbsFn, SignedReals>).Gradient(AbsGradient),
    UnaryOp("Neg", kSignedAndComplex).Kernel<UnaryKernel>(SelectUnary<NegFn, SignedNumbers>).Gradient(NegGradient),
    UnaryOp("Reciprocal", kSignedAndComplex)
        .Kernel<UnaryKernel>(SelectUnary<ReciprocalFn, FloatsAndComplex>)
        .Gradient(ReciprocalGradient),
    UnaryOp("Inv", kSignedAndComplex)
        .Kernel<UnaryKernel>(SelectUnary<ReciprocalFn, FloatsAndComplex>)
        .Gradient(ReciprocalGradient),
    UnaryOp("Square",
            "bfloat16, half, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, complex64, "
            "complex128")
        .Kernel<UnaryKernel>(SelectUnary<SquareFn, Numbers>)
        .Gradient(SquareGradient),
    UnaryOp("Sign", kSignedAndComplex).Kernel<UnaryKernel>(SelectUnary<SignFn, SignedNumbers>).Gradient(ZeroGradient),
    UnaryOp("Floor", kFloats).Kernel<UnaryKernel>(SelectUnary<FloorFn, Floats>).NotDifferentiable(),
    UnaryOp("Ceil", kFloats).Kernel<UnaryKernel>(SelectUnary<CeilFn, Floats>).NotDifferentiable(),
    UnaryOp("Round", kSignedAndComplex).Kernel<UnaryKernel>(SelectUnary<RoundFn, SignedReals>).NotDifferentiable(),
    UnaryOp("Rint", kFloats).Kernel<UnaryKernel>(SelectUnary<RoundFn, Floats>).NotDifferentiable(),
    Predicate("IsNan").Kernel<UnaryKernel>(SelectUnary<IsNanFn, Floats>),
    Predicate("IsInf").Kernel<UnaryKernel>(SelectUnary<IsInfFn, Floats>),
    Predicate("IsFinite").Kernel<UnaryKernel>(SelectUnary<IsFiniteFn, Floats>),
    Op("LogicalNot")
        .Input("x: bool")
        .Output("y: bool")
        .Shape(shapes::LikeInput0)
        .Kernel<UnaryKernel>(SelectUnary<LogicalNotFn, Types<bool>>)
        .NotDifferentiable(),
    UnaryOp("Invert", kIntegers).Kernel<UnaryKernel>(SelectUnary<InvertFn, IntegerTypes>).NotDifferentiable(),
    Op("PopulationCount")
        .Input("x: T")
        .Output("y: uint8")
        .Attr(absl::StrCat("T: {", kIntegers, "}"))
        .Shape(shapes::LikeInput0)
        .Kernel<UnaryKernel>(SelectUnary<PopulationCountFn, IntegerTypes>)
        .NotDifferentiable(),
    GradientHelperOp("ReciprocalGrad")
        .Kernel<SameShapeBinaryKernel>(SelectBinary<ReciprocalGradFn, FloatsAndComplex>)
        .Gradient(ReciprocalGradGradient),
    GradientHelperOp("InvGrad")
        .Kernel<SameShapeBinaryKernel>(SelectBinary<ReciprocalGradFn, FloatsAndComplex>)
        .Gradient(ReciprocalGradGradient),
};

}  // namespace

Output Abs(const Scope& s, Output x) {
  return x && IsComplex(RemoveRef(x.dtype())) ? ComplexAbs(s, x) : Output(s.Add("Abs", {x}));
}
Output Neg(const Scope& s, Output x) { return s.Add("Neg", {x}); }
Output Reciprocal(const Scope& s, Output x) { return s.Add("Reciprocal", {x}); }
Output Square(const Scope& s, Output x) { return s.Add("Square", {x}); }
Output Sign(const Scope& s, Output x) { return s.Add("Sign", {x}); }
Output Floor(const Scope& s, Output x) { return s.Add("Floor", {x}); }
Output Ceil(const Scope& s, Output x) { return s.Add("Ceil", {x}); }
Output Round(const Scope& s, Output x) { return s.Add("Round", {x}); }
Output Rint(const Scope& s, Output x) { return s.Add("Rint", {x}); }
Output IsNan(const Scope& s, Output x) { return s.Add("IsNan", {x}); }
Output IsInf(const Scope& s, Output x) { return s.Add("IsInf", {x}); }
Output IsFinite(const Scope& s, Output x) { return s.Add("IsFinite", {x}); }
Output LogicalNot(const Scope& s, Output x) { return s.Add("LogicalNot", {x}); }
Output Invert(const Scope& s, Output x) { return s.Add("Invert", {x}); }
Output PopulationCount(const Scope& s, Output x) { return s.Add("PopulationCount", {x}); }

}  // namespace thalweg
