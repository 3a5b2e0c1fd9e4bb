// SPDX-License-Identifier: Apache-2.0
// ReduceJoin joins the strings along some dimensions, the first that is named
// changing fastest, with a separator between them. UnsortedSegmentJoin joins
// those that have the same segment id.
#include "absl/strings/str_join.h"
#include "thalweg/base/string_memory.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/string_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

// The place in a tensor of `shape` of element i of its dimensions `dims`, the
// first of which changes slowest, where the others are 0.
int64_t PlaceOf(int64_t i, const Dims& dims, const Shape& shape, const Dims& strides) {
  int64_t place = 0;
  for (auto d = dims.rbegin(); d != dims.rend(); ++d) {
    place += i % shape.dim(static_cast<int>(*d)) * strides[*d];
    i /= shape.dim(static_cast<int>(*d));
  }
  return place;
}

class ReduceJoinKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(keep_dims_, init.Attr<bool>("keep_dims"));
    ASSIGN_OR_RETURN(separator_, init.Attr<std::string>("separator"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    const Shape& shape = input.shape();
    std::vector<bool> is_reduced(shape.rank(), false);
    Dims reduced, kept;
    int64_t count = 1;  // strings in every result
    for (const int32_t axis : c.input(1).flat<int32_t>()) {
      if (axis < -shape.rank() || axis >= shape.rank()) {
        return OutOfRange("Invalid reduction dimension ", axis, " for input with ", shape.rank(), " dimension(s)");
      }
      const int d = axis < 0 ? axis + shape.rank() : axis;
      if (is_reduced[d]) return InvalidArgument("Duplicate reduction dimension ", axis);
      is_reduced[d] = true;
      reduced.insert(reduced.begin(), d);
      count *= shape.dim(d);
    }
    Shape out_shape;
    for (int d = 0; d < shape.rank(); ++d) {
      if (!is_reduced[d]) kept.push_back(d);
      if (!is_reduced[d] || keep_dims_) out_shape.AddDim(is_reduced[d] ? 1 : shape.dim(d));
    }
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, out_shape));
    const Dims strides = RowMajorStrides(shape.dims());
    // Without results, the number of parts may be huge: do not allocate for them.
    std::vector<absl::string_view> parts(out_shape.num_elements() == 0 ? 0 : count);
    for (int64_t i = 0; i < out_shape.num_elements(); ++i) {
      const int64_t start = PlaceOf(i, kept, shape, strides);
      size_t size = separator_.size() * parts.size();
      for (int64_t k = 0; k < count; ++k) {
        parts[k] = input.data<std::string>()[start + PlaceOf(k, reduced, shape, strides)];
        size += parts[k].size();
      }
      ReserveStringMemory(size);
      out->mutable_data<std::string>()[i] = absl::StrJoin(parts, separator_);
    }
    return absl::OkStatus();
  }

 private:
  bool keep_dims_ = false;
  std::string separator_;
};

absl::Status ReduceJoinShape(ShapeContext& c) {
  const std::optional<Dims> axes = ConstantIntegers(c, 1);
  const PartialShape& input = c.input(0);
  if (!axes || !input.has_rank()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool keep_dims, c.Attr<bool>("keep_dims"));
  std::vector<bool> is_reduced(input.rank(), false);
  for (const int64_t axis : *axes) {
    if (axis < -input.rank() || axis >= input.rank()) {
      return InvalidArgument("Invalid reduction dimension ", axis, " for input with ", input.rank(), " dimension(s)");
    }
    is_reduced[axis < 0 ? axis + input.rank() : axis] = true;
  }
  Dims dims;
  for (int d = 0; d < input.rank(); ++d) {
    if (!is_reduced[d]) dims.push_back(input.dim(d));
    if (is_reduced[d] && keep_dims) dims.push_back(1);
  }
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

class UnsortedSegmentJoinKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(separator_, init.Attr<std::string>("separator"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    const Tensor& ids = c.input(1);
    if (c.input(2).rank() != 0) return InvalidArgument("Number of segments must be a scalar");
    const int64_t segments = ReadInteger(c.input(2));
    if (segments < 0) return InvalidArgument("Number of segments must be non-negative but got ", segments);
    if (ids.rank() == 0) return InvalidArgument("Segment_id cannot have rank 0");
    if (ids.rank() > input.rank()) {
      return OutOfRange("Invalid segment_id rank ", ids.rank(), " for input with ", input.rank(), " dimension(s)");
    }
    Dims dims = {segments};
    for (int d = 0; d < input.rank(); ++d) {
      if (d >= ids.rank()) {
        dims.push_back(input.dim(d));
      } else if (ids.dim(d) != input.dim(d)) {
        return InvalidArgument("Segment dimension is ", ids.dim(d), " while input dimension is ", input.rank(),
                               " in rank ", d);
      }
    }
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    const int64_t width = shape.Product(1, shape.rank());
    for (int64_t i = 0; i < ids.num_elements(); ++i) {
      const int64_t id = ReadInteger(ids, i);
      if (id < 0 || id >= segments) {
        return InvalidArgument("segment_ids are not allowed to exceed num_segments or to have negative values.");
      }
      for (int64_t k = 0; k < width; ++k) {
        std::string& text = out->mutable_data<std::string>()[id * width + k];
        if (!text.empty()) text += separator_;
        text += input.data<std::string>()[i * width + k];
      }
    }
    return absl::OkStatus();
  }

 private:
  std::string separator_;
};

absl::Status UnsortedSegmentJoinShape(ShapeContext& c) {
  const std::optional<Dims> segments = ConstantIntegers(c, 2);
  const PartialShape& input = c.input(0);
  const PartialShape& ids = c.input(1);
  if (!input.has_rank() || !ids.has_rank() || ids.rank() > input.rank()) return absl::OkStatus();
  const PartialShape first({segments && segments->size() == 1 ? (*segments)[0] : PartialShape::kUnknown});
  c.set_output(0, Concatenate(first, SubShape(input, ids.rank())));
  return absl::OkStatus();
}

const OpRegistration kReduceJoinOps[] = {
    Op("ReduceJoin")
        .Input("inputs: string")
        .Input("reduction_indices: int32")
        .Output("output: string")
        .Attr("keep_dims: bool = false")
        .Attr("separator: string = ''")
        .Shape(ReduceJoinShape)
        .Kernel<ReduceJoinKernel>()
        .NotDifferentiable(),
    Op("UnsortedSegmentJoin")
        .Input("inputs: string")
        .Input("segment_ids: Tindices")
        .Input("num_segments: Tnumsegments")
        .Output("output: string")
        .Attr("separator: string = ''")
        .Attr("Tindices: {int32, int64}")
        .Attr("Tnumsegments: {int32, int64} = DT_INT32")
        .Shape(UnsortedSegmentJoinShape)
        .Kernel<UnsortedSegmentJoinKernel>()
        .NotDifferentiable(),
};

}  // namespace

Output ReduceJoin(const Scope& s, Output inputs, const IntsArg& reduction_indices, const ReduceJoinOptions& options) {
  return s.Add("ReduceJoin", {inputs, reduction_indices.AsTensor(s, "reduction_indices")},
               {{"keep_dims", options.keep_dims}, {"separator", options.separator}});
}
Output UnsortedSegmentJoin(const Scope& s, Output inputs, Output segment_ids, const IntArg& num_segments,
                           absl::string_view separator) {
  return s.Add("UnsortedSegmentJoin", {inputs, segment_ids, num_segments.AsTensor(s, "num_segments")},
               {{"separator", separator}});
}

}  // namespace thalweg
