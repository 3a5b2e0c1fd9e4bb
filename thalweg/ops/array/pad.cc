// SPDX-License-Identifier: Apache-2.0
// Pad puts zeros around a tensor, PadV2 a given value: paddings[d] says how many
// before and after it in dimension d.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

absl::Status ComputePad(KernelContext& c) {
  const Tensor& input = c.input(0);
  const Tensor& paddings = c.input(1);
  const int rank = input.rank();
  if (paddings.rank() != 2 || paddings.dim(1) != 2) {
    return InvalidArgument("paddings must be a matrix with 2 columns: ", paddings.shape());
  }
  if (paddings.dim(0) != rank) {
    return InvalidArgument("The first dimension of paddings must be the rank of inputs", paddings.shape(), " ",
                           input.shape());
  }
  if (c.num_inputs() == 3 && c.input(2).rank() != 0) {
    return InvalidArgument("constant_values must be a scalar. Found: ", c.input(2).shape());
  }
  Dims dims(rank);
  bool padded = false;
  for (int d = 0; d < rank; ++d) {
    const int64_t before = ReadInteger(paddings, 2 * d), after = ReadInteger(paddings, 2 * d + 1);
    if (before < 0 || after < 0) return InvalidArgument("Paddings must be non-negative: ", before, " ", after);
    if (__builtin_add_overflow(input.dim(d), before, &dims[d]) || __builtin_add_overflow(dims[d], after, &dims[d])) {
      return InvalidArgument("Paddings overflow: ", before, " ", after);
    }
    padded = padded || before != 0 || after != 0;
  }
  if (!padded) {
    c.set_output(0, c.TakeInput(0));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  if (c.num_inputs() == 3) {
    RETURN_IF_ERROR(FillElements(c, c.input(2), out));
  } else {
    ClearElements(out);
  }
  StridedPlace to{.strides = RowMajorStrides(dims)};
  for (int d = 0; d < rank; ++d) to.offset += ReadInteger(paddings, 2 * d) * to.strides[d];
  return CopyStrided(c, input.shape().dims(), input, {.strides = RowMajorStrides(input.shape().dims())}, out, to);
}

absl::Status PadShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape paddings, c.WithRank(1, 2));
  RETURN_IF_ERROR(MergeDims(paddings.dim(1), 2).status());
  ASSIGN_OR_RETURN(const int64_t rank, MergeDims(c.input(0).rank(), paddings.dim(0)));
  if (rank < 0 || rank > Shape::kMaxRank) return absl::OkStatus();
  Dims dims(rank, PartialShape::kUnknown);
  if (const std::optional<Dims> sizes = ConstantIntegers(c, 1)) {
    for (int d = 0; d < rank; ++d) {
      const int64_t before = (*sizes)[2 * d], after = (*sizes)[2 * d + 1];
      if (before < 0 || after < 0) return InvalidArgument("Paddings must be non-negative: ", before, " ", after);
      dims[d] = AddDims(DimOf(c.input(0), d), AddDims(before, after));
    }
  }
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

// The part of dy where the input was.
absl::Status PadGradient(GradientContext& c) {
  const Scope& s = c.scope();
  const Output paddings = c.input(1);
  const Output begin = StridedSlice(s, paddings, Const(s, {0, 0}), Const(s, {0, 1}), Const(s, {1, 1}),
                                    {.begin_mask = 1, .end_mask = 1, .shrink_axis_mask = 2});
  c.set_dx(0, Slice(s, c.dy(), begin, ShapeOf(s, c.input(0), paddings.dtype())));
  return absl::OkStatus();
}

const OpRegistration kPadOps[] = {
    Op("Pad")
        .Input("input: T")
        .Input("paddings: Tpaddings")
        .Output("output: T")
        .Attr("T: type")
        .Attr("Tpaddings: {int32, int64} = DT_INT32")
        .Shape(PadShape)
        .Compute(ComputePad)
        .Gradient(PadGradient),
    Op("PadV2")
        .Input("input: T")
        .Input("paddings: Tpaddings")
        .Input("constant_values: T")
        .Output("output: T")
        .Attr("T: type")
        .Attr("Tpaddings: {int32, int64} = DT_INT32")
        .Shape(PadShape)
        .Compute(ComputePad)
        .Gradient(PadGradient),
};

}  // namespace

Output Pad(const Scope& s, Output input, const IntPairsArg& paddings) {
  return s.Add("Pad", {input, paddings.AsTensor(s, "paddings")});
}
Output Pad(const Scope& s, Output input, const IntPairsArg& paddings, const ScalarArg& constant_value) {
  return s.Add("PadV2", {input, paddings.AsTensor(s, "paddings"), constant_value.AsTensor(s, "constant_value")});
}

}  // namespace thalweg
