// SPDX-License-Identifier: Apache-2.0
// Split cuts a tensor along a dimension into equal parts, SplitV into parts of
// given sizes (one may be -1: what is left). Parts of the first dimension share
// the memory of the input.
#include <algorithm>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

// `axis` has one element.
absl::StatusOr<int> SplitAxis(const Tensor& axis, int rank) {
  const int64_t given = ReadInteger(axis);
  if (given >= -rank && given < rank) return static_cast<int>(given < 0 ? given + rank : given);
  return InvalidArgument("-input rank(-", rank, ") <= split_dim < input rank (", rank, "), but got ", given);
}

// Output i is sizes[i] along the axis; they add up to its size.
absl::Status SplitInto(KernelContext& c, const Tensor& value, int axis, absl::Span<const int64_t> sizes) {
  const int64_t rows = value.shape().Product(0, axis);
  const int64_t inner = value.shape().Product(axis + 1, value.rank());
  const int64_t width = value.dim(axis) * inner;
  Shape shape = value.shape();
  int64_t begin = 0;
  for (int i = 0; i < static_cast<int>(sizes.size()); begin += sizes[i++]) {
    shape.set_dim(axis, sizes[i]);
    if (rows == 1 && WorthSharing(value.dtype(), shape.num_elements())) {
      c.set_output(i, value.WithShape(Shape({value.dim(axis), inner})).Rows(begin, begin + sizes[i]).WithShape(shape));
      continue;
    }
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(i, shape));
    const int64_t part = sizes[i] * inner;
    RETURN_IF_ERROR(CopyStrided(c, {rows, part}, value, {.offset = begin * inner, .strides = {width, 1}}, out,
                                {.strides = {part, 1}}));
  }
  return absl::OkStatus();
}

absl::Status ComputeSplit(KernelContext& c) {
  const Tensor& value = c.input(1);
  if (c.input(0).rank() != 0) {
    return InvalidArgument("split_dim must be a scalar but has rank ", c.input(0).rank());
  }
  ASSIGN_OR_RETURN(const int axis, SplitAxis(c.input(0), value.rank()));
  const int n = c.num_outputs();
  if (value.dim(axis) % n != 0) {
    return InvalidArgument("Number of ways to split should evenly divide the split dimension, but got split_dim ", axis,
                           " (size = ", value.dim(axis), ") and num_split ", n);
  }
  return SplitInto(c, value, axis, absl::InlinedVector<int64_t, 8>(n, value.dim(axis) / n));
}

absl::Status SplitShape(ShapeContext& c) {
  const PartialShape& value = c.input(1);
  RETURN_IF_ERROR(c.RequireScalar(0));
  if (!value.has_rank()) return absl::OkStatus();
  PartialShape part = PartialShape::OfRank(value.rank());
  if (const std::optional<Dims> given = ConstantIntegers(c, 0)) {
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis((*given)[0], value.rank()));
    Dims dims(value.dims().begin(), value.dims().end());
    const int64_t size = dims[axis];
    if (size > 0 && size % c.num_outputs() != 0) {
      return InvalidArgument("Dimension size must be evenly divisible by ", c.num_outputs(), " but is ", size);
    }
    if (size >= 0) dims[axis] = size / c.num_outputs();
    part = PartialShape(std::move(dims));
  }
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, part);
  return absl::OkStatus();
}

Output ConcatOfGradients(GradientContext& c, Output axis) {
  std::vector<Output> dys;
  for (int i = 0; i < c.node()->num_outputs(); ++i) dys.push_back(c.dy(i));
  return Concat(c.scope(), dys, axis);
}

absl::Status SplitGradient(GradientContext& c) {
  c.set_dx(1, ConcatOfGradients(c, c.input(0)));
  return absl::OkStatus();
}

// SplitV

absl::Status ComputeSplitV(KernelContext& c) {
  const Tensor& value = c.input(0);
  const int n = c.num_outputs();
  if (c.input(2).num_elements() != 1) return InvalidArgument("split_dim_tensor must have exactly one element.");
  if (c.input(1).rank() != 1 || c.input(1).num_elements() != n) {
    return InvalidArgument("size of the split_tensor must be 1-D and have the same elements as outputs got ",
                           c.input(1).rank(), " -D and ", c.input(1).num_elements(), " elements");
  }
  ASSIGN_OR_RETURN(const int axis, SplitAxis(c.input(2), value.rank()));
  Dims sizes = ReadIntegers(c.input(1));
  const int64_t size = value.dim(axis);
  int64_t sum = 0;
  int rest = -1;
  for (int i = 0; i < n; ++i) {
    if (sizes[i] == -1) {
      if (rest != -1) return InvalidArgument("There can only be one -1 in the input.");
      rest = i;
    } else if (sizes[i] < 0 || __builtin_add_overflow(sum, sizes[i], &sum)) {
      return InvalidArgument("Split size at index ", i, " must be >= 0. Got: ", sizes[i]);
    }
  }
  if (n == 1 && rest == -1 && sum != size) {
    return InvalidArgument("If there is only one output, it must have the same size as the input. Input size: ", size,
                           " output size: ", sum);
  }
  if (rest == -1 ? sum != size : sum > size) {
    return InvalidArgument(
        "Determined shape must either match input shape along split_dim exactly if fully specified, ",
        "or be less than the size of the input along split_dim if not fully specified.  Got: ", sum);
  }
  if (rest != -1) sizes[rest] = size - sum;
  return SplitInto(c, value, axis, sizes);
}

absl::Status SplitVShape(ShapeContext& c) {
  const PartialShape& value = c.input(0);
  if (!value.has_rank()) return absl::OkStatus();
  const std::optional<Dims> given = ConstantIntegers(c, 2);
  const std::optional<Dims> sizes = ConstantIntegers(c, 1);
  if (!given.has_value() || given->size() != 1) {
    for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, PartialShape::OfRank(value.rank()));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis((*given)[0], value.rank()));
  if (sizes.has_value() && static_cast<int>(sizes->size()) != c.num_outputs()) {
    return InvalidArgument("size_splits has ", sizes->size(), " elements for ", c.num_outputs(), " outputs");
  }
  int64_t known = 0;
  if (sizes.has_value()) {
    for (const int64_t size : *sizes) known = AddDims(known, std::max<int64_t>(size, 0));
  }
  const int64_t dim = value.dim(axis);
  for (int i = 0; i < c.num_outputs(); ++i) {
    Dims dims(value.dims().begin(), value.dims().end());
    dims[axis] = sizes.has_value() ? std::max<int64_t>((*sizes)[i], -1) : PartialShape::kUnknown;
    if (sizes.has_value() && dims[axis] == -1 && dim >= known) dims[axis] = dim - known;
    c.set_output(i, PartialShape(std::move(dims)));
  }
  return absl::OkStatus();
}

absl::Status SplitVGradient(GradientContext& c) {
  c.set_dx(0, ConcatOfGradients(c, c.input(2)));
  return absl::OkStatus();
}

const OpRegistration kSplitOps[] = {
    Op("Split")
        .Input("split_dim: int32")
        .Input("value: T")
        .Output("output: num_split * T")
        .Attr("num_split: int >= 1")
        .Attr("T: type")
        .Shape(SplitShape)
        .Compute(ComputeSplit)
        .Gradient(SplitGradient),
    Op("SplitV")
        .Input("value: T")
        .Input("size_splits: Tlen")
        .Input("split_dim: int32")
        .Output("output: num_split * T")
        .Attr("num_split: int >= 1")
        .Attr("T: type")
        .Attr("Tlen: {int8, int32, int64} = DT_INT64")
        .Shape(SplitVShape)
        .Compute(ComputeSplitV)
        .Gradient(SplitVGradient),
};

std::vector<Output> AllOutputs(Node* node, int n) {
  std::vector<Output> outputs;
  for (int i = 0; i < n; ++i) outputs.emplace_back(node, i);
  return outputs;
}

}  // namespace

std::vector<Output> Split(const Scope& s, Output value, int num_split, int axis) {
  return AllOutputs(s.Add("Split", {Const(s.Argument("axis"), axis), value}, {{"num_split", num_split}}), num_split);
}
std::vector<Output> Split(const Scope& s, Output value, const IntsArg& size_splits, const IntArg& axis, int num_split) {
  const std::vector<OpInput> inputs{value, size_splits.AsTensor(s, "size_splits"), axis.AsTensor(s, "axis")};
  return AllOutputs(s.Add("SplitV", inputs, {{"num_split", num_split}}), num_split);
}

}  // namespace thalweg
