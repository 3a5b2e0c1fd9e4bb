// SPDX-License-Identifier: Apache-2.0
// ReduceSliceSum, -Prod, -Max, -Min of tf.contrib: each result reduces the rows [begin, end) along an axis. `indices`
// has a pair for each result or, as a vector, the borders between adjacent results.
#include <algorithm>
#include <limits>
#include <utility>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/support/segment_rows.h"
#include "thalweg/tensor/dtype.h"

namespace thalweg {
namespace {

class ReduceSliceKernel final : public Kernel {
 public:
  explicit ReduceSliceKernel(SegmentReduction reduction) : reduction_(reduction) {}

  absl::Status Compute(KernelContext& c) override {
    const Tensor &data = c.input(0), &indices = c.input(1), &axis_input = c.input(2);
    if (axis_input.rank() != 0) return InvalidArgument("axis must be a scalar, got shape ", axis_input.shape());
    const int64_t axis = axis_input.scalar<int64_t>();
    if (axis < 0 || axis >= data.rank()) {
      return InvalidArgument("axis ", axis, " is not a dimension of data of shape ", data.shape());
    }
    const bool pairs = indices.rank() == 2 && indices.dim(1) == 2;
    if (!pairs && indices.rank() != 1 && !(indices.rank() == 2 && indices.dim(1) == 1)) {
      return InvalidArgument("indices must be a vector or a matrix with two columns, got shape ", indices.shape());
    }
    const int64_t results = pairs ? indices.dim(0) : std::max<int64_t>(1, indices.dim(0)) - 1;
    Dims dims(data.shape().dims().begin(), data.shape().dims().end());
    const int64_t length = std::exchange(dims[axis], results);
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    RETURN_IF_ERROR(FillWithIdentity(reduction_, out));
    if (IsFloating(data.dtype())) RETURN_IF_ERROR(FillWithInfinity(out));
    if (out->num_elements() == 0 || data.num_elements() == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(const CombineRow combine, FindCombineRow(reduction_, data.dtype()));
    int64_t outer = 1, inner = 1;
    for (int d = 0; d < data.rank(); ++d) (d < axis ? outer : inner) *= d == axis ? 1 : data.dim(d);
    const size_t row_bytes = inner * ElementSize(data.dtype());
    const char* const from = static_cast<const char*>(data.raw());
    char* const to = static_cast<char*>(out->raw());
    return Dispatch(IndexTypes(), indices.dtype(), [&]<typename Index>() -> absl::Status {
      const Index* const borders = indices.data<Index>();
      for (int64_t r = 0; r < results; ++r) {
        const int64_t begin = borders[pairs ? 2 * r : r];
        const int64_t end = std::min<int64_t>(borders[pairs ? 2 * r + 1 : r + 1], length);
        if (begin < 0) return InvalidArgument("slice ", r, " begins at ", begin);
        for (int64_t o = 0; o < outer; ++o) {
          for (int64_t i = begin; i < end; ++i) {
            combine(from + (o * length + i) * row_bytes, to + (o * results + r) * row_bytes, inner);
          }
        }
      }
      return absl::OkStatus();
    });
  }

 private:
  // The greatest or least of no floats is infinite.
  absl::Status FillWithInfinity(Tensor* t) const {
    if (reduction_ != SegmentReduction::kMax && reduction_ != SegmentReduction::kMin) return absl::OkStatus();
    const float infinity = std::numeric_limits<float>::infinity();
    return Dispatch(FloatTypes(), t->dtype(), [&]<typename T>() {
      std::fill_n(t->mutable_data<T>(), t->num_elements(),
                  T(reduction_ == SegmentReduction::kMin ? infinity : -infinity));
      return absl::OkStatus();
    });
  }

  const SegmentReduction reduction_;
};

absl::Status ReduceSliceShape(ShapeContext& c) {
  const PartialShape& data = c.input(0);
  c.set_output(0, data.has_rank() ? PartialShape(Dims(data.rank(), PartialShape::kUnknown)) : PartialShape());
  return absl::OkStatus();
}

Op ReduceSlice(absl::string_view name, SegmentReduction reduction) {
  return Op(name)
      .Input("data: T")
      .Input("indices: Tindices")
      .Input("axis: int64")
      .Output("output: T")
      .Attr("T: numbertype")
      .Attr("Tindices: {int32, int64}")
      .Shape(ReduceSliceShape)
      .Kernel<ReduceSliceKernel>(reduction)
      .NotDifferentiable();
}

const OpRegistration kReduceSliceOps[] = {
    ReduceSlice("ReduceSliceSum", SegmentReduction::kSum),
    ReduceSlice("ReduceSliceProd", SegmentReduction::kProd),
    ReduceSlice("ReduceSliceMax", SegmentReduction::kMax),
    ReduceSlice("ReduceSliceMin", SegmentReduction::kMin),
};

}  // namespace
}  // namespace thalweg
