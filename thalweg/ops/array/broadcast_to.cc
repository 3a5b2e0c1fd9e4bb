// SPDX-License-Identifier: Apache-2.0
// BroadcastTo repeats a tensor to a shape, under NumPy's rules.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

absl::Status ComputeBroadcastTo(KernelContext& c) {
  const Tensor& input = c.input(0);
  ASSIGN_OR_RETURN(const Shape shape, ReadShape(c.input(1), "shape"));
  if (shape == input.shape()) {
    c.set_output(0, c.TakeInput(0));
    return absl::OkStatus();
  }
  if (input.rank() > shape.rank()) {
    return InvalidArgument("Rank of input (", input.rank(), ") must be no greater than rank of output shape (",
                           shape.rank(), ").");
  }
  const Dims input_strides = RowMajorStrides(input.shape().dims());
  StridedPlace from{.strides = Dims(shape.rank(), 0)};
  for (int i = 0; i < input.rank(); ++i) {
    const int d = shape.rank() - input.rank() + i;
    if (input.dim(i) == 1) continue;
    if (input.dim(i) != shape.dim(d)) {
      if (shape.dim(d) != 1) return InvalidArgument("Incompatible shapes: ", input.shape(), " vs. ", shape);
      return InvalidArgument("Unable to broadcast tensor of shape ", input.shape(), " to tensor of shape ", shape);
    }
    from.strides[d] = input_strides[i];
  }
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  return CopyStrided(c, shape.dims(), input, from, out, {.strides = RowMajorStrides(shape.dims())});
}

absl::Status BroadcastToShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.WithRank(1, 1).status());
  ASSIGN_OR_RETURN(PartialShape shape, c.ConstantAsShape(1));
  const PartialShape& input = c.input(0);
  if (shape.has_rank() && input.has_rank()) {
    if (input.rank() > shape.rank()) {
      return InvalidArgument("Shape must be at most rank ", shape.rank(), " but is rank ", input.rank());
    }
    for (int i = 0; i < input.rank(); ++i) {
      const int64_t size = shape.dim(shape.rank() - input.rank() + i);
      if (input.dim(i) > 1 && size >= 0 && input.dim(i) != size) {
        return InvalidArgument("Incompatible shapes: ", input, " vs. ", shape);
      }
    }
  }
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

// dy summed over the dimensions that were repeated.
absl::Status BroadcastToGradient(GradientContext& c) {
  const Scope& s = c.scope();
  const Output input_shape = ShapeOf(s, c.input(0), c.input(1).dtype());
  Node* const axes = s.Add("BroadcastGradientArgs", {input_shape, c.input(1)});
  const Output sum = s.Add("Sum", {c.dy(), Output(axes, 0)});
  c.set_dx(0, Reshape(s, sum, input_shape));
  return absl::OkStatus();
}

const OpRegistration kBroadcastTo = Op("BroadcastTo")
                                        .Input("input: T")
                                        .Input("shape: Tidx")
                                        .Output("output: T")
                                        .Attr("T: type")
                                        .Attr("Tidx: {int32, int64} = DT_INT32")
                                        .Shape(BroadcastToShape)
                                        .Compute(ComputeBroadcastTo)
                                        .Gradient(BroadcastToGradient);

}  // namespace

Output BroadcastTo(const Scope& s, Output input, const IntsArg& shape) {
  return s.Add("BroadcastTo", {input, shape.AsTensor(s, "shape")});
}

}  // namespace thalweg
