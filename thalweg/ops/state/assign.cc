// SPDX-License-Identifier: Apache-2.0
// Assign, AssignAdd and AssignSub of variables that ref edges carry: they give
// the variable a new value and pass it on.
#include "thalweg/base/simd.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/state/variable_arithmetic.h"
#include "thalweg/ops/state/variable_update.h"
#include "thalweg/ops/state_ops.h"

namespace thalweg {
namespace {

// No elements are copied: the value moves in if this is its last use, and else
// is shared until one side is written.
class AssignKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(validate_shape_, init.Attr<bool>("validate_shape"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    Variable& variable = context.variable(0);
    if (validate_shape_) RETURN_IF_ERROR(CheckShape(variable, context.input(1).shape()));
    variable.Assign(context.TakeInput(1));
    context.set_variable(0, &variable);
    return absl::OkStatus();
  }

 private:
  static absl::Status CheckShape(const Variable& variable, const Shape& shape) {
    // The shape of the current value counts or, without a value, the declared shape.
    return variable.Inspect([&](const Tensor& value) -> absl::Status {
      if (value.has_value()) return value.shape() == shape ? absl::OkStatus() : Mismatch(value.shape(), shape);
      return variable.shape().Accepts(shape) ? absl::OkStatus() : Mismatch(variable.shape(), shape);
    });
  }

  template <typename S>
  static absl::Status Mismatch(const S& variable, const Shape& value) {
    return InvalidArgument("Assign requires shapes of both tensors to match. lhs shape= ", variable,
                           " rhs shape= ", value);
  }

  bool validate_shape_ = true;
};

absl::Status Add(KernelContext& context) {
  RETURN_IF_ERROR(AddToVariable(context, context.variable(0), "Parameters and update must be the same size"));
  context.set_variable(0, &context.variable(0));
  return absl::OkStatus();
}

absl::Status Subtract(KernelContext& context) {
  RETURN_IF_ERROR(SubtractFromVariable(context, context.variable(0), "Parameters and update must be the same size"));
  context.set_variable(0, &context.variable(0));
  return absl::OkStatus();
}

absl::Status AssignShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const bool validate, c.Attr<bool>("validate_shape"));
  if (!validate) {
    c.set_output(0, c.input(1));
    return absl::OkStatus();
  }
  return shapes::MergeInputs(c);
}

const OpRegistration kAssignOps[] = {
    Op("Assign")
        .Input("ref: Ref(T)")
        .Input("value: T")
        .Output("output_ref: Ref(T)")
        .Attr("T: type")
        .Attr("validate_shape: bool = true")
        .Attr("use_locking: bool = true")
        .AllowsUninitializedInput()
        .Shape(AssignShape)
        .Kernel<AssignKernel>()
        .NotDifferentiable(),
    Op("AssignAdd")
        .Input("ref: Ref(T)")
        .Input("value: T")
        .Output("output_ref: Ref(T)")
        .Attr("T: numbertype")
        .Attr("use_locking: bool = false")
        .Shape(shapes::MergeInputs)
        .Compute(Add)
        .NotDifferentiable(),
    Op("AssignSub")
        .Input("ref: Ref(T)")
        .Input("value: T")
        .Output("output_ref: Ref(T)")
        .Attr("T: numbertype")
        .Attr("use_locking: bool = false")
        .Shape(shapes::MergeInputs)
        .Compute(Subtract)
        .NotDifferentiable(),
};

}  // namespace

Output Assign(const Scope& s, Output ref, Output value, const AssignOptions& options) {
  return s.Add("Assign", {ref, value},
               {{"validate_shape", options.validate_shape}, {"use_locking", options.use_locking}});
}

Output AssignAdd(const Scope& s, Output ref, Output value, const UpdateOptions& options) {
  return s.Add("AssignAdd", {ref, value}, {{"use_locking", options.use_locking}});
}

Output AssignSub(const Scope& s, Output ref, Output value, const UpdateOptions& options) {
  return s.Add("AssignSub", {ref, value}, {{"use_locking", options.use_locking}});
}

}  // namespace thalweg
