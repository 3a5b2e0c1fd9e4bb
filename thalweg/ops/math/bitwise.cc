// SPDX-License-Identifier: Apache-2.0
// Operations on the bits of integers, elementwise with broadcasting. Shifts by
// less than nothing, or by more than there are bits, go as far as they can.
#include <algorithm>
#include <type_traits>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/elementwise.h"

namespace thalweg {
namespace {

struct AndFn {
  template <typename T>
  T operator()(T x, T y) const {
    return x & y;
  }
};
struct OrFn {
  template <typename T>
  T operator()(T x, T y) const {
    return x | y;
  }
};
struct XorFn {
  template <typename T>
  T operator()(T x, T y) const {
    return x ^ y;
  }
};

template <typename T>
inline int Distance(T y) {
  constexpr T kMost = sizeof(T) * 8 - 1;
  return static_cast<int>(y < T(0) ? T(0) : y > kMost ? kMost : y);
}
struct LeftShiftFn {
  template <typename T>
  T operator()(T x, T y) const {
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(x) << Distance(y));
  }
};
struct RightShiftFn {
  template <typename T>
  T operator()(T x, T y) const {
    return static_cast<T>(x >> Distance(y));
  }
};

Op Bitwise(absl::string_view name) {
  return Op(name)
      .Input("x: T")
      .Input("y: T")
      .Output("z: T")
      .Attr("T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64}")
      .Shape(shapes::Broadcast)
      .NotDifferentiable();
}

const OpRegistration kBitwiseOps[] = {
    Bitwise("BitwiseAnd").Commutative().Kernel<BinaryKernel>(SelectBinary<AndFn, IntegerTypes>),
    Bitwise("BitwiseOr").Commutative().Kernel<BinaryKernel>(SelectBinary<OrFn, IntegerTypes>),
    Bitwise("BitwiseXor").Commutative().Kernel<BinaryKernel>(SelectBinary<XorFn, IntegerTypes>),
    Bitwise("LeftShift").Kernel<BinaryKernel>(SelectBinary<LeftShiftFn, IntegerTypes>),
    Bitwise("RightShift").Kernel<BinaryKernel>(SelectBinary<RightShiftFn, IntegerTypes>),
};

}  // namespace

Output BitwiseAnd(const Scope& s, Output x, Output y) { return s.Add("BitwiseAnd", {x, y}); }
Output BitwiseOr(const Scope& s, Output x, Output y) { return s.Add("BitwiseOr", {x, y}); }
Output BitwiseXor(const Scope& s, Output x, Output y) { return s.Add("BitwiseXor", {x, y}); }
Output LeftShift(const Scope& s, Output x, Output y) { return s.Add("LeftShift", {x, y}); }
Output RightShift(const Scope& s, Output x, Output y) { return s.Add("RightShift", {x, y}); }

}  // namespace thalweg
