// SPDX-License-Identifier: Apache-2.0
// Slice: the block of `size` elements that starts at `begin`; a size of -1 goes
// to the end. Whole rows of the first dimension share the memory of the input.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

absl::Status CheckBlock(const Shape& shape, const Dims& begin, Dims* size) {
  for (int d = 0; d < shape.rank(); ++d) {
    const int64_t dim = shape.dim(d), b = begin[d];
    int64_t& s = (*size)[d];
    if (s == -1) s = dim - b;
    if (dim == 0) {
      if (b == 0 && s == 0) continue;
      return InvalidArgument("Expected begin[", d, "] == 0 (got ", b, ") and size[", d, "] == 0 (got ", s,
                             ") when input.dim_size(", d, ") == 0");
    }
    if (b < 0 || b > dim) return InvalidArgument("Expected begin[", d, "] in [0, ", dim, "], but got ", b);
    if (s < 0 || s > dim - b) return InvalidArgument("Expected size[", d, "] in [0, ", dim - b, "], but got ", s);
  }
  return absl::OkStatus();
}

absl::Status ComputeSlice(KernelContext& c) {
  const Tensor& input = c.input(0);
  const int rank = input.rank();
  if (c.input(1).rank() != 1 || c.input(2).rank() != 1 || c.input(1).num_elements() != rank ||
      c.input(2).num_elements() != rank) {
    return InvalidArgument("Expected begin and size arguments to be 1-D tensors of size ", rank, ", but got shapes ",
                           c.input(1).shape(), " and ", c.input(2).shape(), " instead.");
  }
  const Dims begin = ReadIntegers(c.input(1));
  Dims size = ReadIntegers(c.input(2));
  RETURN_IF_ERROR(CheckBlock(input.shape(), begin, &size));
  const Shape shape(size);
  bool whole_rows = true;
  for (int d = 1; d < rank; ++d) whole_rows = whole_rows && size[d] == input.dim(d);
  if (whole_rows && (rank == 0 || size[0] == input.dim(0))) {
    c.set_output(0, c.TakeInput(0));
    return absl::OkStatus();
  }
  if (whole_rows && WorthSharing(input.dtype(), shape.num_elements())) {
    c.set_output(0, input.Rows(begin[0], begin[0] + size[0]));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  StridedPlace from{.strides = RowMajorStrides(input.shape().dims())};
  for (int d = 0; d < rank; ++d) from.offset += begin[d] * from.strides[d];
  return CopyStrided(c, size, input, from, out, {.strides = RowMajorStrides(size)});
}

absl::Status SliceShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape begin_shape, c.WithRank(1, 1));
  ASSIGN_OR_RETURN(const PartialShape size_shape, c.WithRank(2, 1));
  ASSIGN_OR_RETURN(int64_t rank, MergeDims(begin_shape.dim(0), size_shape.dim(0)));
  ASSIGN_OR_RETURN(rank, MergeDims(rank, c.input(0).rank()));
  if (rank < 0 || rank > Shape::kMaxRank) return absl::OkStatus();
  const std::optional<Dims> begin = ConstantIntegers(c, 1);
  Dims size(rank, PartialShape::kUnknown);
  if (const std::optional<Dims> constant = ConstantIntegers(c, 2)) {
    size = *constant;
  } else {
    ASSIGN_OR_RETURN(const PartialShape known, c.ConstantAsShape(2));
    if (known.has_rank() && known.rank() == rank) size = Dims(known.dims().begin(), known.dims().end());
  }
  for (int d = 0; d < rank; ++d) {
    const int64_t dim = DimOf(c.input(0), d);
    if (size[d] < -1) return InvalidArgument("size[", d, "] = ", size[d], " must be >= -1");
    if (begin.has_value() && dim >= 0) {
      const int64_t b = (*begin)[d];
      if (b < 0 || b > dim) return InvalidArgument("begin[", d, "] = ", b, " is not in [0, ", dim, "]");
      // -1 in a constant means the rest. In a vector that is not constant, it means unknown.
      if (size[d] == -1 && c.Constant(2).has_value()) size[d] = dim - b;
      if (size[d] > dim - b) return InvalidArgument("size[", d, "] = ", size[d], " is not in [0, ", dim - b, "]");
    }
  }
  c.set_output(0, PartialShape(std::move(size)));
  return absl::OkStatus();
}

// dy in the place of the block, zeros around.
absl::Status SliceGradient(GradientContext& c) {
  const Scope& s = c.scope();
  const Output begin = c.input(1);
  const DType type = begin.dtype();
  const Output before = ExpandDims(s, begin, 1);
  Output after = s.Add("Sub", {ShapeOf(s, c.input(0), type), ShapeOf(s, c.output(0), type)});
  after = s.Add("Sub", {after, begin});
  const Output paddings = Concat(s, {before, ExpandDims(s, after, 1)}, 1);
  c.set_dx(0, Output(s.Add("Pad", {c.dy(), paddings})));
  return absl::OkStatus();
}

const OpRegistration kSlice = Op("Slice")
                                  .Input("input: T")
                                  .Input("begin: Index")
                                  .Input("size: Index")
                                  .Output("output: T")
                                  .Attr("T: type")
                                  .Attr("Index: {int32, int64}")
                                  .Shape(SliceShape)
                                  .Compute(ComputeSlice)
                                  .Gradient(SliceGradient);

}  // namespace

Output Slice(const Scope& s, Output input, const IntsArg& begin, const IntsArg& size) {
  const DType type = begin.dtype() == kInvalid ? size.dtype() : begin.dtype();
  return s.Add("Slice", {input, begin.AsTensor(s, "begin", type), size.AsTensor(s, "size", type)});
}

}  // namespace thalweg
