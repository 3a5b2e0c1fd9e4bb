// SPDX-License-Identifier: Apache-2.0
// z = x op y for +, -, *, min, max and their kin, elementwise with broadcasting.
#include <algorithm>
#include <string>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/ops/support/numbers.h"

namespace thalweg {
namespace {

struct AddFn {
  template <typename T>
  T operator()(const T& x, const T& y) const {
    return WrapAdd(x, y);
  }
};
struct SubFn {
  template <typename T>
  T operator()(T x, T y) const {
    return WrapSub(x, y);
  }
};
struct MulFn {
  template <typename T>
  T operator()(T x, T y) const {
    return WrapMul(x, y);
  }
};
struct MulNoNanFn {
  template <typename T>
  T operator()(T x, T y) const {
    return y == T(0) ? T(0) : WrapMul(x, y);
  }
};
// A NaN in either operand is passed on.
struct MaximumFn {
  template <typename T>
  T operator()(T x, T y) const {
    return x > y || x != x ? x : y;
  }
};
struct MinimumFn {
  template <typename T>
  T operator()(T x, T y) const {
    return x < y || x != x ? x : y;
  }
};
// |x - y|^2, a real number even of complex operands.
struct SquaredDifferenceFn {
  template <typename T>
  T operator()(T x, T y) const {
    const T d = WrapSub(x, y);
    return WrapMul(d, Conjugate(d));
  }
};

using AddTypes = Types<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
                       std::complex<float>, std::complex<double>, std::string>;

absl::Status AddGradient(GradientContext& g) { return SetSums(g, g.dy(), g.dy()); }

absl::Status SubGradient(GradientContext& g) { return SetSums(g, g.dy(), Neg(g.scope(), g.dy())); }

absl::Status MulGradient(GradientContext& g) {
  const Scope& s = g.scope();
  return SetSums(g, Mul(s, g.dy(), Conj(s, g.input(1))), Mul(s, Conj(s, g.input(0)), g.dy()));
}

absl::Status MulNoNanGradient(GradientContext& g) {
  const Scope& s = g.scope();
  return SetSums(g, MulNoNan(s, g.dy(), g.input(1)), MulNoNan(s, g.input(0), g.dy()));
}

// The gradient goes to the operand that was taken; to x where both are equal.
absl::Status ExtremumGradient(GradientContext& g, Output takes_x) {
  const Scope& s = g.scope();
  const Output zeros = s.Add("ZerosLike", {g.dy()});
  return SetSums(g, s.Add("SelectV2", {takes_x, g.dy(), zeros}), s.Add("SelectV2", {takes_x, zeros, g.dy()}));
}
absl::Status MaximumGradient(GradientContext& g) {
  return ExtremumGradient(g, GreaterEqual(g.scope(), g.input(0), g.input(1)));
}
absl::Status MinimumGradient(GradientContext& g) {
  return ExtremumGradient(g, LessEqual(g.scope(), g.input(0), g.input(1)));
}

absl::Status SquaredDifferenceGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output two = ScalarConst(s, g.dy().dtype(), 2);
  const Output dx = Mul(s, Mul(s, two, g.dy()), Sub(s, g.input(0), g.input(1)));
  return SetSums(g, dx, Neg(s, dx));
}

const OpRegistration kBinaryArithmeticOps[] = {
    BinaryOp("Add", "bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128, string")
        .Kernel<BinaryKernel>(SelectBinary<AddFn, AddTypes>)
        .Gradient(AddGradient),
    BinaryOp("AddV2",
             "bfloat16, half, float, double, uint8, uint16, uint32, uint64, int8, int16, int32, int64, complex64, "
             "complex128")
        .Commutative()
        .Aggregate()
        .Kernel<BinaryKernel>(SelectBinary<AddFn, Numbers>)
        .Gradient(AddGradient),
    BinaryOp("Sub",
             "bfloat16, half, float, double, uint8, int8, uint16, int16, int32, int64, complex64, complex128, uint32, "
             "uint64")
        .Kernel<BinaryKernel>(SelectBinary<SubFn, Numbers>)
        .Gradient(SubGradient),
    BinaryOp("Mul",
             "bfloat16, half, float, double, uint8, int8, uint16, int16, int32, uint32, uint64, int64, complex64, "
             "complex128")
        .Commutative()
        .Kernel<BinaryKernel>(SelectBinary<MulFn, Numbers>)
        .Gradient(MulGradient),
    BinaryOp("MulNoNan", kFloatsAndComplex)
        .Kernel<BinaryKernel>(SelectBinary<MulNoNanFn, FloatsAndComplex>)
        .Gradient(MulNoNanGradient),
    BinaryOp("Maximum", "bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, uint64")
        .Kernel<BinaryKernel>(SelectBinary<MaximumFn, Reals>)
        .Gradient(MaximumGradient),
    BinaryOp("Minimum", "bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, uint64")
        .Kernel<BinaryKernel>(SelectBinary<MinimumFn, Reals>)
        .Gradient(MinimumGradient),
    BinaryOp("SquaredDifference", "bfloat16, half, float, double, int32, int64, complex64, complex128")
        .Commutative()
        .Kernel<BinaryKernel>(
            SelectBinary<SquaredDifferenceFn,
                         Types<float, double, int32_t, int64_t, std::complex<float>, std::complex<double>>>)
        .Gradient(SquaredDifferenceGradient),
};

}  // namespace

Output Add(const Scope& s, Output x, Output y) {
  // AddV2 has every type but strings.
  return s.Add(x && RemoveRef(x.dtype()) == kString ? "Add" : "AddV2", {x, y});
}
Output Sub(const Scope& s, Output x, Output y) { return s.Add("Sub", {x, y}); }
Output Mul(const Scope& s, Output x, Output y) { return s.Add("Mul", {x, y}); }
Output MulNoNan(const Scope& s, Output x, Output y) { return s.Add("MulNoNan", {x, y}); }
Output Maximum(const Scope& s, Output x, Output y) { return s.Add("Maximum", {x, y}); }
Output Minimum(const Scope& s, Output x, Output y) { return s.Add("Minimum", {x, y}); }
Output SquaredDifference(const Scope& s, Output x, Output y) { return s.Add("SquaredDifference", {x, y}); }

}  // namespace thalweg
