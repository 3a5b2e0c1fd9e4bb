// SPDX-License-Identifier: Apache-2.0
// SparseSegmentSum, -Mean and -SqrtN (the sum divided by the square root of the
// count) reduce rows of a table that are named by `indices`:
//
//   output[s] = reduction of data[indices[i]] over all i with segment_ids[i] == s
//
// Numbers never decrease. The Grad ops give the derivative with respect to the
// table: each row of the gradient goes back to the rows it came from.
#include <algorithm>
#include <cmath>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/segment_rows.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

enum class Average { kSum, kMean, kSqrtN };

double Divisor(Average average, int64_t count) {
  switch (average) {
    case Average::kSum:
      return 1;
    case Average::kMean:
      return static_cast<double>(count);
    case Average::kSqrtN:
      return std::sqrt(static_cast<double>(count));
  }
  return 1;
}

absl::Status CheckVectors(const Tensor& indices, const Tensor& ids) {
  if (indices.rank() != 1) return InvalidArgument("indices should be a vector.");
  if (ids.rank() != 1) return InvalidArgument("segment_ids should be a vector.");
  if (indices.num_elements() != ids.num_elements()) {
    return InvalidArgument("segment_ids and indices should have same size.");
  }
  return absl::OkStatus();
}

absl::Status CheckIndices(const Tensor& indices, int64_t size) {
  for (int64_t i = 0; i < indices.num_elements(); ++i) {
    const int64_t index = ReadInteger(indices, i);
    if (index < 0 || index >= size) {
      return InvalidArgument("Bad: indices[", i, "] == ", index, " out of range [0, ", size, ")");
    }
  }
  return absl::OkStatus();
}

class SparseSegmentKernel : public Kernel {
 public:
  explicit SparseSegmentKernel(Average average) : average_(average) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(add_, FindCombineRow(SegmentReduction::kSum, init.node().output_type(0)));
    ASSIGN_OR_RETURN(divide_, FindDivideRow(init.node().output_type(0)));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& data = c.input(0);
    const Tensor& indices = c.input(1);
    const Tensor& ids = c.input(2);
    RETURN_IF_ERROR(CheckVectors(indices, ids));
    if (data.rank() < 1) return InvalidArgument("Shape must be at least rank 1");
    const int64_t n = ids.num_elements();
    int64_t segments = 0;
    for (int64_t i = 0, last = 0; i < n; ++i) {
      const int64_t id = ReadInteger(ids, i);
      if (id < 0) return InvalidArgument("segment ids must be >= 0");
      if (id < last) return InvalidArgument("segment ids are not increasing");
      if (__builtin_add_overflow(id, 1, &segments)) return InvalidArgument("a segment id of ", id);
      last = id;
    }
    if (c.num_inputs() > 3) {
      if (c.input(3).rank() != 0) {
        return InvalidArgument("num_segments should be a scalar, not shape ", c.input(3).shape());
      }
      const int64_t wanted = ReadInteger(c.input(3));
      if (wanted < 0) return InvalidArgument("num_segments must be >=0, got ", wanted);
      if (wanted < segments) return InvalidArgument("segment ids must be < num_segments");
      segments = wanted;
    }
    RETURN_IF_ERROR(CheckIndices(indices, data.dim(0)));
    Dims dims(data.shape().dims().begin(), data.shape().dims().end());
    dims[0] = segments;
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    Reduce(data, indices, ids, out);
    return absl::OkStatus();
  }

 private:
  void Reduce(const Tensor& data, const Tensor& indices, const Tensor& ids, Tensor* out) const {
    constexpr int64_t kAhead = 8;
    ClearElements(out);
    const int64_t n = ids.num_elements();
    const int64_t inner = data.shape().Product(1, data.rank());
    const int64_t bytes = inner * static_cast<int64_t>(ElementSize(data.dtype()));
    const char* const from = static_cast<const char*>(data.raw());
    for (int64_t i = 0; i < n;) {
      const int64_t id = ReadInteger(ids, i);
      char* const row = static_cast<char*>(out->raw()) + id * bytes;
      int64_t next = i;
      for (; next < n && ReadInteger(ids, next) == id; ++next) {
        if (next + kAhead < n) __builtin_prefetch(from + ReadInteger(indices, next + kAhead) * bytes);
        add_(from + ReadInteger(indices, next) * bytes, row, inner);
      }
      if (average_ != Average::kSum && next - i > 1) divide_(row, Divisor(average_, next - i), inner);
      i = next;
    }
  }

  const Average average_;
  CombineRow add_ = nullptr;
  DivideRow divide_ = nullptr;
};

absl::Status SparseSegmentShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape indices, c.WithRank(1, 1));
  ASSIGN_OR_RETURN(const PartialShape ids, c.WithRank(2, 1));
  RETURN_IF_ERROR(MergeDims(indices.dim(0), ids.dim(0)).status());
  int64_t segments = PartialShape::kUnknown;
  if (c.num_inputs() > 3) {
    RETURN_IF_ERROR(c.RequireScalar(3));
    if (const std::optional<Dims> given = ConstantIntegers(c, 3)) segments = (*given)[0];
    if (segments < -1) return InvalidArgument("Cannot specify a negative value for num_segments: ", segments);
  }
  if (!c.input(0).has_rank()) return absl::OkStatus();
  if (c.input(0).rank() < 1) return InvalidArgument("Shape must be at least rank 1 but is rank 0");
  c.set_output(0, Concatenate({segments}, SubShape(c.input(0), 1)));
  return absl::OkStatus();
}

class SparseSegmentGradKernel : public Kernel {
 public:
  explicit SparseSegmentGradKernel(Average average) : average_(average) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(add_scaled_, FindAddScaledRow(init.node().output_type(0)));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& grad = c.input(0);
    const Tensor& indices = c.input(1);
    const Tensor& ids = c.input(2);
    RETURN_IF_ERROR(CheckVectors(indices, ids));
    if (grad.rank() < 1) return InvalidArgument("Shape must be at least rank 1");
    ASSIGN_OR_RETURN(const int64_t rows, ReadScalar(c.input(3), "output_dim0"));
    const int64_t n = ids.num_elements(), segments = grad.dim(0);
    const int64_t inner = grad.shape().Product(1, grad.rank());
    std::vector<int64_t> counts(inner == 0 ? 0 : segments, 0);  // rows of nothing may be many
    for (int64_t i = 0; i < n; ++i) {
      const int64_t id = ReadInteger(ids, i);
      if (id < 0 || id >= segments) {
        return InvalidArgument("Segment id ", id, " out of range [0, ", segments, ").");
      }
      if (inner > 0) ++counts[id];
    }
    for (int64_t i = 0; i < n; ++i) {
      const int64_t index = ReadInteger(indices, i);
      if (index < 0 || index >= rows) return InvalidArgument("Index ", index, " out of range [0, ", rows, ").");
    }
    Dims dims(grad.shape().dims().begin(), grad.shape().dims().end());
    dims[0] = rows;
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    ClearElements(out);
    const int64_t bytes = inner * static_cast<int64_t>(ElementSize(grad.dtype()));
    for (int64_t i = 0; i < n && inner > 0; ++i) {
      const int64_t id = ReadInteger(ids, i);
      add_scaled_(static_cast<const char*>(grad.raw()) + id * bytes, 1 / Divisor(average_, counts[id]),
                  static_cast<char*>(out->raw()) + ReadInteger(indices, i) * bytes, inner);
    }
    return absl::OkStatus();
  }

 private:
  const Average average_;
  AddScaledRow add_scaled_ = nullptr;
};

absl::Status SparseSegmentGradShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.WithRank(1, 1).status());
  RETURN_IF_ERROR(c.RequireScalar(3));
  if (!c.input(0).has_rank()) return absl::OkStatus();
  if (c.input(0).rank() < 1) return InvalidArgument("Shape must be at least rank 1 but is rank 0");
  const std::optional<Dims> rows = ConstantIntegers(c, 3);
  if (rows.has_value() && (*rows)[0] < 0) return InvalidArgument("Cannot specify a negative value for output_dim0");
  c.set_output(0, Concatenate({rows.has_value() ? (*rows)[0] : PartialShape::kUnknown}, SubShape(c.input(0), 1)));
  return absl::OkStatus();
}

// Gradient of the ops with and without num_segments, by the Grad op of the same kind.
template <Average kAverage>
absl::Status SparseSegmentGradient(GradientContext& c) {
  static constexpr const char* kSparseSegmentOps[] = {"SparseSegmentSumGrad", "SparseSegmentMeanGrad",
                                                      "SparseSegmentSqrtNGrad"};
  const Scope& s = c.scope();
  const Output rows =
      StridedSlice(s, ShapeOf(s, c.input(0)), Const(s, {0}), Const(s, {1}), Const(s, {1}), {.shrink_axis_mask = 1});
  c.set_dx(0, Output(s.Add(kSparseSegmentOps[static_cast<int>(kAverage)], {c.dy(), c.input(1), c.input(2), rows})));
  return absl::OkStatus();
}

Op SparseSegment(absl::string_view name, absl::string_view types, bool num_segments, Average average,
                 GradientFn gradient) {
  Op op(name);
  op.Input("data: T").Input("indices: Tidx").Input("segment_ids: Tsegmentids");
  if (num_segments) op.Input("num_segments: Tnumsegments");
  op.Output("output: T").Attr(absl::StrCat("T: ", types)).Attr("Tidx: {int32, int64} = DT_INT32");
  if (num_segments) op.Attr("Tnumsegments: {int32, int64} = DT_INT32");
  return op.Attr("Tsegmentids: {int32, int64} = DT_INT32")
      .Attr("sparse_gradient: bool = false")
      .Shape(SparseSegmentShape)
      .Kernel<SparseSegmentKernel>(average)
      .Gradient(gradient);
}

Op SparseSegmentGrad(absl::string_view name, Average average) {
  return Op(name)
      .Input("grad: T")
      .Input("indices: Tidx")
      .Input("segment_ids: Tsegmentids")
      .Input("output_dim0: int32")
      .Output("output: T")
      .Attr("T: {bfloat16, half, float, double}")
      .Attr("Tidx: {int32, int64} = DT_INT32")
      .Attr("Tsegmentids: {int32, int64} = DT_INT32")
      .Shape(SparseSegmentGradShape)
      .Kernel<SparseSegmentGradKernel>(average);
}

constexpr const char* kFloatTypes = "{bfloat16, half, float, double}";

const OpRegistration kSparseSegmentOps[] = {
    SparseSegment("SparseSegmentSum", "realnumbertype", false, Average::kSum, SparseSegmentGradient<Average::kSum>),
    SparseSegment("SparseSegmentMean", kFloatTypes, false, Average::kMean, SparseSegmentGradient<Average::kMean>),
    SparseSegment("SparseSegmentSqrtN", kFloatTypes, false, Average::kSqrtN, SparseSegmentGradient<Average::kSqrtN>),
    SparseSegment("SparseSegmentSumWithNumSegments", "realnumbertype", true, Average::kSum,
                  SparseSegmentGradient<Average::kSum>),
    SparseSegment("SparseSegmentMeanWithNumSegments", kFloatTypes, true, Average::kMean,
                  SparseSegmentGradient<Average::kMean>),
    SparseSegment("SparseSegmentSqrtNWithNumSegments", kFloatTypes, true, Average::kSqrtN,
                  SparseSegmentGradient<Average::kSqrtN>),
    SparseSegmentGrad("SparseSegmentSumGrad", Average::kSum),
    SparseSegmentGrad("SparseSegmentMeanGrad", Average::kMean),
    SparseSegmentGrad("SparseSegmentSqrtNGrad", Average::kSqrtN),
};

}  // namespace

Output SparseSegmentSum(const Scope& s, Output data, Output indices, Output segment_ids) {
  return s.Add("SparseSegmentSum", {data, indices, segment_ids});
}
Output SparseSegmentMean(const Scope& s, Output data, Output indices, Output segment_ids) {
  return s.Add("SparseSegmentMean", {data, indices, segment_ids});
}
Output SparseSegmentSqrtN(const Scope& s, Output data, Output indices, Output segment_ids) {
  return s.Add("SparseSegmentSqrtN", {data, indices, segment_ids});
}

}  // namespace thalweg
