// SPDX-License-Identifier: Apache-2.0
// Cross: the cross products of vectors of three elements, along the last
// dimension.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/numbers.h"

namespace thalweg {
namespace {

// a b - c d
template <typename T>
T Difference(T a, T b, T c, T d) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T(static_cast<float>(a) * static_cast<float>(b) - static_cast<float>(c) * static_cast<float>(d));
  } else {
    return WrapSub(WrapMul(a, b), WrapMul(c, d));
  }
}

absl::Status ComputeCross(KernelContext& context) {
  const Tensor &a = context.input(0), &b = context.input(1);
  if (!(a.shape() == b.shape())) {
    return InvalidArgument("Both inputs must be of same shape: ", a.shape(), " vs. ", b.shape());
  }
  if (a.rank() < 1) return InvalidArgument("Input must be at least 1D: ", a.shape());
  if (a.dim(a.rank() - 1) != 3) {
    return FailedPrecondition("Cross-products are only defined for 3-element vectors: ", a.shape());
  }
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, a.shape()));
  return Dispatch(RealTypes(), a.dtype(), [&]<typename T>() {
    for (int64_t i = 0; i < a.num_elements(); i += 3) {
      const T *const u = a.data<T>() + i, *const v = b.data<T>() + i;
      T* const y = out->mutable_data<T>() + i;
      y[0] = Difference(u[1], v[2], u[2], v[1]);
      y[1] = Difference(u[2], v[0], u[0], v[2]);
      y[2] = Difference(u[0], v[1], u[1], v[0]);
    }
    return absl::OkStatus();
  });
}

absl::Status CrossShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape merged, PartialShape::Merge(c.input(0), c.input(1)));
  if (merged.has_rank()) {
    if (merged.rank() < 1) return InvalidArgument("Shape must be at least rank 1 but is rank 0");
    const int64_t last = merged.dim(merged.rank() - 1);
    if (last >= 0 && last != 3) return InvalidArgument("Dimension must be 3 but is ", last);
  }
  c.set_output(0, merged);
  return absl::OkStatus();
}

absl::Status CrossGradient(GradientContext& g) {
  const Scope& s = g.scope();
  g.set_dx(0, Cross(s, g.input(1), g.dy()));
  g.set_dx(1, Cross(s, g.dy(), g.input(0)));
  return absl::OkStatus();
}

const OpRegistration kCross = Op("Cross")
                                  .Input("a: T")
                                  .Input("b: T")
                                  .Output("product: T")
                                  .Attr("T: realnumbertype")
                                  .Shape(CrossShape)
                                  .Compute(ComputeCross)
                                  .Gradient(CrossGradient);

}  // namespace

Output Cross(const Scope& s, Output a, Output b) { return s.Add("Cross", {a, b}); }

}  // namespace thalweg
