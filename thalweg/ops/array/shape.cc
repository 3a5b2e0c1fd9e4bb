// SPDX-License-Identifier: Apache-2.0
// Properties of a tensor that do not need its elements: Shape, ShapeN (of
// several at once), Size (how many elements) and Rank (how many dimensions).
#include <limits>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/input_value.h"

namespace thalweg {
namespace {

absl::Status CheckFits(int64_t value, DType out_type) {
  if (out_type == kInt32 && value > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument("Shape output type is 32-bit, but dim or size is ", value);
  }
  return absl::OkStatus();
}

void Put(Tensor* out, int64_t i, int64_t value) {
  if (out->dtype() == kInt32) {
    out->mutable_data<int32_t>()[i] = static_cast<int32_t>(value);
  } else {
    out->mutable_data<int64_t>()[i] = value;
  }
}

// Input i is a tensor, or a variable that the runtime did not read.
absl::StatusOr<Shape> ShapeOfInput(KernelContext& c, int i) {
  Shape shape;
  RETURN_IF_ERROR(WithValue(c, i, [&](const Tensor& value) {
    shape = value.shape();
    return absl::OkStatus();
  }));
  return shape;
}

absl::Status ComputeShapes(KernelContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) {
    ASSIGN_OR_RETURN(const Shape shape, ShapeOfInput(c, i));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(i, Shape({shape.rank()})));
    for (int d = 0; d < shape.rank(); ++d) {
      RETURN_IF_ERROR(CheckFits(shape.dim(d), out->dtype()));
      Put(out, d, shape.dim(d));
    }
  }
  return absl::OkStatus();
}

absl::Status ComputeSize(KernelContext& c) {
  ASSIGN_OR_RETURN(const Shape shape, ShapeOfInput(c, 0));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape()));
  RETURN_IF_ERROR(CheckFits(shape.num_elements(), out->dtype()));
  Put(out, 0, shape.num_elements());
  return absl::OkStatus();
}

absl::Status ComputeRank(KernelContext& c) {
  ASSIGN_OR_RETURN(const Shape shape, ShapeOfInput(c, 0));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape()));
  Put(out, 0, shape.rank());
  return absl::OkStatus();
}

absl::Status ShapesOfShapes(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, {c.input(i).rank()});  // -1 if unknown
  return absl::OkStatus();
}

const OpRegistration kShapeOps[] = {
    Op("Shape")
        .Input("input: T")
        .Output("output: out_type")
        .Attr("T: type")
        .Attr("out_type: {int32, int64} = DT_INT32")
        .Shape(ShapesOfShapes)
        .Compute(ComputeShapes)
        .NotDifferentiable(),
    Op("ShapeN")
        .Input("input: N * T")
        .Output("output: N * out_type")
        .Attr("N: int >= 1")
        .Attr("T: type")
        .Attr("out_type: {int32, int64} = DT_INT32")
        .Shape(ShapesOfShapes)
        .Compute(ComputeShapes)
        .NotDifferentiable(),
    Op("Size")
        .Input("input: T")
        .Output("output: out_type")
        .Attr("T: type")
        .Attr("out_type: {int32, int64} = DT_INT32")
        .Shape(shapes::Scalar)
        .Compute(ComputeSize)
        .NotDifferentiable(),
    Op("Rank")
        .Input("input: T")
        .Output("output: int32")
        .Attr("T: type")
        .Shape(shapes::Scalar)
        .Compute(ComputeRank)
        .NotDifferentiable(),
};

}  // namespace

Output ShapeOf(const Scope& s, Output input, DType out_type) {
  return s.Add("Shape", {input}, {{"out_type", out_type}});
}

std::vector<Output> ShapeN(const Scope& s, const std::vector<Output>& inputs, DType out_type) {
  Node* const node = s.Add("ShapeN", {inputs}, {{"out_type", out_type}});
  std::vector<Output> outputs;
  for (size_t i = 0; i < inputs.size(); ++i) outputs.emplace_back(node, static_cast<int>(i));
  return outputs;
}

Output Size(const Scope& s, Output input, DType out_type) { return s.Add("Size", {input}, {{"out_type", out_type}}); }
Output Rank(const Scope& s, Output input) { return s.Add("Rank", {input}); }

}  // namespace thalweg
