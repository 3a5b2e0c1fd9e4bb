// SPDX-License-Identifier: Apache-2.0
// SparseSegmentSumGradV2, ...MeanGradV2, ...SqrtNGradV2: the gradients of the
// rows that a SparseSegment op used, each row once, and which they are.
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

class SegmentGradKernel : public Kernel {
 public:
  enum Form { kSum, kMean, kSqrtN };
  explicit SegmentGradKernel(Form form) : form_(form) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor &grad = context.input(0), &indices = context.input(1), &segments = context.input(2);
    if (grad.rank() < 1) return InvalidArgument("grad must be at least a vector");
    if (indices.rank() != 1) return InvalidArgument("indices should be a vector.");
    if (segments.rank() != 1) return InvalidArgument("segment_ids should be a vector.");
    if (context.input(3).rank() != 0) return InvalidArgument("dense_output_dim0 should be a scalar.");
    const int64_t count = indices.num_elements(), rows = context.input(3).scalar<int32_t>();
    if (segments.num_elements() != count) return InvalidArgument("segment_ids and indices should have same size.");
    const int64_t width = grad.shape().Product(1, grad.rank());
    // Rows of nothing may be many.
    std::vector<int64_t> row(count), segment(count), sizes(width == 0 ? 0 : grad.dim(0));
    std::map<int64_t, int64_t> slot;  // slot of each row that is used
    for (int64_t i = 0; i < count; ++i) {
      row[i] = indices.dtype() == kInt64 ? indices.data<int64_t>()[i] : indices.data<int32_t>()[i];
      segment[i] = segments.dtype() == kInt64 ? segments.data<int64_t>()[i] : segments.data<int32_t>()[i];
      if (row[i] < 0 || row[i] >= rows) return InvalidArgument("Index ", row[i], " out of range [0, ", rows, ").");
      if (segment[i] < 0 || segment[i] >= grad.dim(0)) {
        return InvalidArgument("Segment id ", segment[i], " out of range [0, ", grad.dim(0),
                               "), possibly because 'segment_ids' input is not sorted.");
      }
      if (width > 0) ++sizes[segment[i]];
      slot[row[i]] = 0;
    }
    const int64_t used = static_cast<int64_t>(slot.size());
    ASSIGN_OR_RETURN(Tensor * unique, context.Allocate(1, Shape({used})));
    int64_t next = 0;
    for (auto& [number, place] : slot) {
      place = next++;
      if (unique->dtype() == kInt64) {
        unique->mutable_data<int64_t>()[place] = number;
      } else {
        unique->mutable_data<int32_t>()[place] = static_cast<int32_t>(number);
      }
    }
    Shape shape = grad.shape();
    shape.set_dim(0, used);
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
    return Dispatch(FloatTypes(), grad.dtype(), [&]<typename T>() {
      using F = std::conditional_t<std::is_same_v<T, double>, double, float>;
      std::vector<F> sums(used * width);
      for (int64_t i = 0; i < count && width > 0; ++i) {
        const F size = static_cast<F>(sizes[segment[i]]);
        const F scale = form_ == kSum ? F(1) : form_ == kMean ? 1 / size : 1 / std::sqrt(size);
        const T* const from = grad.data<T>() + segment[i] * width;
        F* const to = sums.data() + slot[row[i]] * width;
        for (int64_t k = 0; k < width; ++k) to[k] += static_cast<F>(from[k]) * scale;
      }
      for (size_t k = 0; k < sums.size(); ++k) out->mutable_data<T>()[k] = static_cast<T>(sums[k]);
      return absl::OkStatus();
    });
  }

 private:
  const Form form_;
};

absl::Status SegmentGradShape(ShapeContext& c) {
  const PartialShape& grad = c.input(0);
  if (grad.has_rank() && grad.rank() > 0) {
    Dims dims(grad.dims().begin(), grad.dims().end());
    dims[0] = PartialShape::kUnknown;
    c.set_output(0, PartialShape(std::move(dims)));
  }
  c.set_output(1, PartialShape::OfRank(1));
  return absl::OkStatus();
}

Op SegmentGrad(const char* name, SegmentGradKernel::Form form) {
  return Op(name)
      .Input("grad: T")
      .Input("indices: Tidx")
      .Input("segment_ids: Tsegmentids")
      .Input("dense_output_dim0: int32")
      .Output("output: T")
      .Output("sorted_unique_indices: Tidx")
      .Attr("T: {bfloat16, half, float, double}")
      .Attr("Tidx: {int32, int64} = DT_INT32")
      .Attr("Tsegmentids: {int32, int64} = DT_INT32")
      .Shape(SegmentGradShape)
      .Kernel<SegmentGradKernel>(form);
}

const OpRegistration kSparseSegmentGradOps[] = {
    SegmentGrad("SparseSegmentSumGradV2", SegmentGradKernel::kSum),
    SegmentGrad("SparseSegmentMeanGradV2", SegmentGradKernel::kMean),
    SegmentGrad("SparseSegmentSqrtNGradV2", SegmentGradKernel::kSqrtN),
};

}  // namespace
}  // namespace thalweg
