// SPDX-License-Identifier: Apache-2.0
// L2Loss: sum(t^2) / 2, a scalar.
#include "thalweg/base/simd.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/support/elementwise.h"

namespace thalweg {
namespace {

constexpr int64_t kPiece = 1 << 16;

template <typename T>
THALWEG_SIMD T SumOfSquares(const T* x, int64_t n) {
  constexpr int kLanes = 32;
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] += x[i + l] * x[i + l];
  }
  T sum = 0;
  for (; i < n; ++i) sum += x[i] * x[i];
  for (int l = 0; l < kLanes; ++l) sum += lanes[l];
  return sum;
}

// By pieces of a fixed size: the result does not depend on the threads.
template <typename T>
absl::StatusOr<T> HalfSum(KernelContext& context, const T* x, int64_t n) {
  if (n <= kPiece) return SumOfSquares(x, n) / 2;
  const int64_t pieces = (n + kPiece - 1) / kPiece;
  ASSIGN_OR_RETURN(Tensor partial, context.AllocateTemporary(DTypeOf<T>, Shape({pieces})));
  T* const sums = partial.mutable_data<T>();
  context.ParallelFor(pieces, 0.2 * kPiece, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) sums[p] = SumOfSquares(x + p * kPiece, std::min(kPiece, n - p * kPiece));
  });
  T sum = 0;
  for (int64_t p = 0; p < pieces; ++p) sum += sums[p];
  return sum / 2;
}

absl::Status Compute(KernelContext& context) {
  const Tensor& t = context.input(0);
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, Shape()));
  if (IsHalfPrecision(t.dtype())) {
    ASSIGN_OR_RETURN(Tensor wide, context.AllocateTemporary(kFloat, t.shape()));
    HalfToFloat(t.dtype(), t.raw(), wide.mutable_data<float>(), t.num_elements());
    ASSIGN_OR_RETURN(const float loss, HalfSum(context, wide.data<float>(), t.num_elements()));
    FloatToHalf(out->dtype(), &loss, out->raw(), 1);
    return absl::OkStatus();
  }
  return Dispatch(Types<float, double>(), t.dtype(), [&]<typename T>() -> absl::Status {
    ASSIGN_OR_RETURN(*out->mutable_data<T>(), HalfSum(context, t.data<T>(), t.num_elements()));
    return absl::OkStatus();
  });
}

absl::Status Gradient(GradientContext& g) {
  g.set_dx(0, Mul(g.scope(), g.input(0), g.dy()));
  return absl::OkStatus();
}

const OpRegistration kL2Loss = Op("L2Loss")
                                   .Input("t: T")
                                   .Output("output: T")
                                   .Attr("T: {half, bfloat16, float, double}")
                                   .Shape(shapes::Scalar)
                                   .Compute(Compute)
                                   .Gradient(Gradient);

}  // namespace

Output L2Loss(const Scope& s, Output t) { return s.Add("L2Loss", {t}); }

}  // namespace thalweg
