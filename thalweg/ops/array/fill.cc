// SPDX-License-Identifier: Apache-2.0
// Tensors of one value: Fill, ZerosLike, OnesLike.
#include <algorithm>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"
#include "thalweg/ops/support/variant_arithmetic.h"

namespace thalweg {
namespace {

absl::Status ComputeFill(KernelContext& c) {
  const Tensor& dims = c.input(0);
  const Tensor& value = c.input(1);
  if (dims.rank() != 1 && !(dims.rank() == 0)) {
    return InvalidArgument("dims must represent a vector, got shape ", dims.shape());
  }
  if (value.rank() > 1 || value.num_elements() != 1) {
    return InvalidArgument("value must represent a scalar, got shape ", value.shape());
  }
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make(ReadIntegers(dims)));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  return FillElements(c, value, out);
}

absl::Status FillShape(ShapeContext& c) {
  if (c.input(0).has_rank() && c.input(0).rank() > 1) {
    return InvalidArgument("Shape must be at most rank 1 but is rank ", c.input(0).rank(), " for dims");
  }
  if (c.input(1).has_rank() && c.input(1).rank() > 1) {
    return InvalidArgument("Shape must be at most rank 1 but is rank ", c.input(1).rank(), " for value");
  }
  const std::optional<Tensor> dims = c.Constant(0);
  if (dims.has_value()) {
    const Dims sizes = ReadIntegers(*dims);
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] < 0) return InvalidArgument("Fill dimensions must be >= 0, got ", sizes[i], " for dimension ", i);
    }
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(sizes));
    c.set_output(0, shape);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(PartialShape shape, c.ConstantAsShape(0));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

// The value was used in every place.
absl::Status FillGradient(GradientContext& c) {
  const Scope& s = c.scope();
  const Output axes = Range(s, Const(s, 0), Rank(s, c.dy()), Const(s, 1));
  c.set_dx(1, Output(s.Add("Sum", {c.dy(), axes})));
  return absl::OkStatus();
}

absl::Status ComputeZerosLike(KernelContext& c) {
  const DType dtype = c.input(0).dtype();
  if (dtype == kResource) return Unimplemented("no kernel for type ", dtype);
  if (dtype == kVariant) {
    ASSIGN_OR_RETURN(Tensor zeros, ZerosLike(c.input(0)));
    c.set_output(0, std::move(zeros));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Tensor* const out, c.ForwardOrAllocate({0}, 0, c.input(0).shape()));
  ClearElements(out);
  return absl::OkStatus();
}

absl::Status ComputeOnesLike(KernelContext& c) {
  ASSIGN_OR_RETURN(Tensor* const out, c.ForwardOrAllocate({0}, 0, c.input(0).shape()));
  return Dispatch(PodTypes(), out->dtype(), [&]<typename T>() {
    std::fill_n(out->mutable_data<T>(), out->num_elements(), T(1));
    return absl::OkStatus();
  });
}

const OpRegistration kFillOps[] = {
    Op("Fill")
        .Input("dims: index_type")
        .Input("value: T")
        .Output("output: T")
        .Attr("T: type")
        .Attr("index_type: {int32, int64} = DT_INT32")
        .Shape(FillShape)
        .Compute(ComputeFill)
        .Gradient(FillGradient),
    Op("ZerosLike")
        .Input("x: T")
        .Output("y: T")
        .Attr("T: type")
        .Shape(shapes::LikeInput0)
        .Compute(ComputeZerosLike)
        .NotDifferentiable(),
    Op("OnesLike")
        .Input("x: T")
        .Output("y: T")
        .Attr("T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, uint64, complex64, "
              "complex128, bool}")
        .Shape(shapes::LikeInput0)
        .Compute(ComputeOnesLike)
        .NotDifferentiable(),
};

}  // namespace

Output Fill(const Scope& s, const IntsArg& dims, const ScalarArg& value) {
  return s.Add("Fill", {dims.AsTensor(s, "dims"), value.AsTensor(s, "value")});
}
Output ZerosLike(const Scope& s, Output x) { return s.Add("ZerosLike", {x}); }
Output OnesLike(const Scope& s, Output x) { return s.Add("OnesLike", {x}); }

}  // namespace thalweg
