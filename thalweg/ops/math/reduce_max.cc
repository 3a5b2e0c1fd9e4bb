// SPDX-License-Identifier: Apache-2.0
// Max, Min, All and Any over any set of axes. A NaN is passed on.
#include <limits>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/math/reduction.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"

namespace thalweg {
namespace {

using Reals = Types<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;

struct MaxR {
  template <typename T>
  static T Identity() {
    return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::lowest();
  }
  template <typename T>
  T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};
struct MinR {
  template <typename T>
  static T Identity() {
    return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
  template <typename T>
  T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};
struct AllR {
  template <typename T>
  static T Identity() {
    return true;
  }
  bool operator()(bool a, bool b) const { return a & b; }
};
struct AnyR {
  template <typename T>
  static T Identity() {
    return false;
  }
  bool operator()(bool a, bool b) const { return a | b; }
};

// Shared equally between all elements that have the extreme value.
absl::Status ExtremumGradient(GradientContext& g) {
  const Scope& s = g.scope();
  ASSIGN_OR_RETURN(const Output y, WithReducedDims(g, g.output(0)));
  ASSIGN_OR_RETURN(const Output dy, WithReducedDims(g, g.dy()));
  if (!s.ok()) return s.status();
  const Output hits = Cast(s, Equal(s, y, g.input(0)), dy.dtype());
  const Output count = ReduceSum(s, hits, g.input(1), {.keep_dims = true});
  g.set_dx(0, Mul(s, RealDiv(s, hits, count), dy));
  return absl::OkStatus();
}

Op Extremum(absl::string_view name) {
  return Op(name)
      .Input("input: T")
      .Input("reduction_indices: Tidx")
      .Output("output: T")
      .Attr("keep_dims: bool = false")
      .Attr("T: {realnumbertype, quantizedtype}")
      .Attr("Tidx: {int32, int64} = DT_INT32")
      .Shape(ReductionShape)
      .Gradient(ExtremumGradient);
}
Op LogicalReduction(absl::string_view name) {
  return Op(name)
      .Input("input: bool")
      .Input("reduction_indices: Tidx")
      .Output("output: bool")
      .Attr("keep_dims: bool = false")
      .Attr("Tidx: {int32, int64} = DT_INT32")
      .Shape(ReductionShape)
      .NotDifferentiable();
}

const OpRegistration kReduceMaxOps[] = {
    Extremum("Max").Kernel<ReductionKernel>(SelectReduce<MaxR, Reals>),
    Extremum("Min").Kernel<ReductionKernel>(SelectReduce<MinR, Reals>),
    LogicalReduction("All").Kernel<ReductionKernel>(SelectReduce<AllR, Types<bool>>),
    LogicalReduction("Any").Kernel<ReductionKernel>(SelectReduce<AnyR, Types<bool>>),
};

}  // namespace

Output ReduceMax(const Scope& s, Output x, const Axes& axes, const ReduceOptions& o) {
  return AddReduce(s, "Max", x, axes, o);
}
Output ReduceMin(const Scope& s, Output x, const Axes& axes, const ReduceOptions& o) {
  return AddReduce(s, "Min", x, axes, o);
}
Output ReduceAll(const Scope& s, Output x, const Axes& axes, const ReduceOptions& o) {
  return AddReduce(s, "All", x, axes, o);
}
Output ReduceAny(const Scope& s, Output x, const Axes& axes, const ReduceOptions& o) {
  return AddReduce(s, "Any", x, axes, o);
}

}  // namespace thalweg
