// SPDX-License-Identifier: Apache-2.0
// Optionals: a list of tensors or none, as a scalar variant. Conditionals use them to pass values that only the taken
// branch computed to their gradients.
//
//   OptionalFromValue(components) -> optional
//   OptionalNone() -> optional
//   OptionalHasValue(optional) -> bool
//   OptionalGetValue(optional) -> components
#include "thalweg/ops/dataset/optional.h"

#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

absl::StatusOr<const OptionalValue*> GetOptional(const Tensor& tensor) {
  if (tensor.rank() != 0) {
    return InvalidArgument("Input to OptionalHasValue must be a scalar tensor containing an Optional object.");
  }
  const OptionalValue* value = tensor.scalar<Variant>().As<OptionalValue>();
  if (value == nullptr) return InvalidArgument("Input must be a scalar tensor containing an Optional object.");
  return value;
}

absl::Status Return(KernelContext& c, std::shared_ptr<const OptionalValue> value) {
  ASSIGN_OR_RETURN(Tensor * y, c.Allocate(0, Shape()));
  *y->mutable_data<Variant>() = Variant(std::move(value));
  return absl::OkStatus();
}

absl::Status ComputeFromValue(KernelContext& c) {
  std::vector<Tensor> components;
  for (int i = 0; i < c.num_inputs(); ++i) components.push_back(c.input(i));
  return Return(c, std::make_shared<OptionalValue>(std::move(components)));
}

absl::Status ComputeNone(KernelContext& c) { return Return(c, std::make_shared<OptionalValue>()); }

absl::Status ComputeHasValue(KernelContext& c) {
  ASSIGN_OR_RETURN(const OptionalValue* value, GetOptional(c.input(0)));
  ASSIGN_OR_RETURN(Tensor * y, c.Allocate(0, Shape()));
  *y->mutable_data<bool>() = value->has_value();
  return absl::OkStatus();
}

absl::Status ComputeGetValue(KernelContext& c) {
  ASSIGN_OR_RETURN(const OptionalValue* value, GetOptional(c.input(0)));
  if (!value->has_value()) return InvalidArgument("The given optional does not have a value.");
  const std::vector<Tensor>& components = value->components();
  if (static_cast<int>(components.size()) != c.num_outputs()) {
    return InvalidArgument("The given optional has ", components.size(), " components, expected ", c.num_outputs(),
                           ".");
  }
  ASSIGN_OR_RETURN(const std::vector<PartialShape> shapes,
                   GetAttr<std::vector<PartialShape>>(c.node().def(), "output_shapes"));
  for (int i = 0; i < c.num_outputs(); ++i) {
    if (components[i].dtype() != c.output_type(i)) {
      return InvalidArgument("The given optional does not match the expected type for component ", i,
                             ". Expected: ", c.output_type(i), ". Actual: ", components[i].dtype(), ".");
    }
    if (i < static_cast<int>(shapes.size()) && !shapes[i].Accepts(components[i].shape())) {
      return InvalidArgument("The given optional does not match the expected shape for component ", i,
                             ". Expected: ", shapes[i], ". Actual: ", components[i].shape(), ".");
    }
    c.set_output(i, components[i]);
  }
  return absl::OkStatus();
}

absl::Status GetValueShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const std::vector<PartialShape> shapes, c.Attr<std::vector<PartialShape>>("output_shapes"));
  if (static_cast<int>(shapes.size()) != c.num_outputs())
    return InvalidArgument("`output_shapes` must be the same length as `output_types`");
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, shapes[i]);
  return absl::OkStatus();
}

const OpRegistration kOptionalOps[] = {
    Op("OptionalFromValue")
        .Input("components: Toutput_types")
        .Output("optional: variant")
        .Attr("Toutput_types: list(type) >= 1")
        .Shape(shapes::Scalar)
        .Compute(ComputeFromValue),
    Op("OptionalNone").Output("optional: variant").Shape(shapes::Scalar).Compute(ComputeNone).NotDifferentiable(),
    Op("OptionalHasValue")
        .Input("optional: variant")
        .Output("has_value: bool")
        .Shape(shapes::Scalar)
        .Compute(ComputeHasValue)
        .NotDifferentiable(),
    Op("OptionalGetValue")
        .Input("optional: variant")
        .Output("components: output_types")
        .Attr("output_types: list(type) >= 1")
        .Attr("output_shapes: list(shape) >= 1")
        .Shape(GetValueShape)
        .Compute(ComputeGetValue),
};

}  // namespace
}  // namespace thalweg
