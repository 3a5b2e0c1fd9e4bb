// SPDX-License-Identifier: Apache-2.0
// Variables that handles name. A handle says on which device, in which
// container and under which name the variable lives; the variable itself comes
// into being with the first assignment.
#include <algorithm>

#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/state/variable_arithmetic.h"
#include "thalweg/ops/state/variable_update.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/ops/support/resource_kernel.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

// TensorFlow's text for a variable that is not there.
absl::Status NotThere(const ResourceHandle& handle, const absl::Status& cause) {
  return FailedPrecondition(
      "Could not find variable ", handle.name,
      ". This could mean that the variable has been deleted. In TF1, it can also mean the variable "
      "is uninitialized. Debug info: container=",
      handle.container, ", status error message=", cause.message());
}

absl::Status Read(KernelContext& context) {
  const absl::StatusOr<HeldVariable> variable = FindVariable(context, 0);
  if (!variable.ok()) {
    if (!absl::IsNotFound(variable.status())) return variable.status();
    ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(context, 0));
    return NotThere(handle, variable.status());
  }
  Tensor value = (*variable)->Read();
  RETURN_IF_ERROR(CheckInitialized(**variable, value));
  if (value.dtype() != context.output_type(0)) {
    return InvalidArgument("Trying to read variable with wrong dtype. Expected ", context.output_type(0), " got ",
                           value.dtype());
  }
  context.set_output(0, std::move(value));
  return absl::OkStatus();
}

class ResourceAssignKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(dtype_, init.Attr<DType>("dtype"));
    ASSIGN_OR_RETURN(validate_shape_, init.Attr<bool>("validate_shape"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const std::shared_ptr<ResourceVariable> variable, FindOrCreate(context));
    if (variable->dtype() != dtype_) {
      return InvalidArgument("Trying to assign variable with wrong dtype. Expected ", variable->dtype(), " got ",
                             dtype_);
    }
    if (validate_shape_) {
      RETURN_IF_ERROR(variable->Inspect([&](const Tensor& value) -> absl::Status {
        if (!value.has_value() || value.shape() == context.input(1).shape()) return absl::OkStatus();
        return InvalidArgument("Trying to assign to variable with tensor with wrong shape. Expected ", value.shape(),
                               " got ", context.input(1).shape());
      }));
    }
    variable->Assign(context.TakeInput(1));
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::shared_ptr<ResourceVariable>> FindOrCreate(KernelContext& context) const {
    ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(context, 0));
    if (handle.device != context.device().name()) {
      return InvalidArgument("Trying to access resource ", handle.name, " located in device ", handle.device,
                             " from device ", context.device().name());
    }
    return context.device().resources().FindOrCreate<ResourceVariable>(
        handle.container, handle.name, [&]() -> absl::StatusOr<std::shared_ptr<ResourceVariable>> {
          return std::make_shared<ResourceVariable>(handle.name, dtype_);
        });
  }

  DType dtype_ = kInvalid;
  bool validate_shape_ = false;
};

absl::Status AddToResource(KernelContext& context) {
  ASSIGN_OR_RETURN(const HeldVariable variable, FindVariable(context, 0));
  return AddToVariable(context, *variable);
}

absl::Status SubtractFromResource(KernelContext& context) {
  ASSIGN_OR_RETURN(const HeldVariable variable, FindVariable(context, 0));
  return SubtractFromVariable(context, *variable);
}

absl::Status ResourceIsInitialized(KernelContext& context) {
  const absl::StatusOr<HeldVariable> variable = FindVariable(context, 0);
  if (!variable.ok() && !absl::IsNotFound(variable.status())) return variable.status();
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, Shape()));
  *out->mutable_data<bool>() = variable.ok() && (*variable)->initialized();
  return absl::OkStatus();
}

absl::Status ShapeOfVariable(KernelContext& context) {
  ASSIGN_OR_RETURN(const HeldVariable variable, FindVariable(context, 0));
  Shape shape;
  RETURN_IF_ERROR(variable->Inspect([&](const Tensor& value) -> absl::Status {
    RETURN_IF_ERROR(CheckInitialized(*variable, value));
    shape = value.shape();
    return absl::OkStatus();
  }));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, Shape({shape.rank()})));
  return Dispatch(IndexTypes(), out->dtype(), [&]<typename T>() -> absl::Status {
    for (int i = 0; i < shape.rank(); ++i) {
      if (shape.dim(i) > std::numeric_limits<T>::max()) {
        return InvalidArgument("shape of variable does not fit into ", out->dtype(), ": dim ", i, " = ", shape.dim(i));
      }
      out->mutable_data<T>()[i] = static_cast<T>(shape.dim(i));
    }
    return absl::OkStatus();
  });
}

class DestroyKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(ignore_missing_, init.Attr<bool>("ignore_lookup_error"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(context, 0));
    const absl::Status status = context.device().resources().DeleteNamed(handle.container, handle.name);
    return absl::IsNotFound(status) && ignore_missing_ ? absl::OkStatus() : status;
  }

 private:
  bool ignore_missing_ = true;
};

absl::Status VarHandleShape(ShapeContext& c) {
  c.set_output(0, PartialShape(Shape()));
  return absl::OkStatus();
}

absl::Status CheckType(const ShapeContext& c, const char* attr) {
  ASSIGN_OR_RETURN(const DType wanted, c.Attr<DType>(attr));
  const DType declared = VariableTypeOf(c, 0);
  if (declared == kInvalid || declared == wanted) return absl::OkStatus();
  return InvalidArgument("Trying to read variable with wrong dtype. Expected ", declared, " got ", wanted);
}

absl::Status ReadShape(ShapeContext& c) {
  RETURN_IF_ERROR(CheckType(c, "dtype"));
  c.set_output(0, VariableShapeOf(c, 0));
  return absl::OkStatus();
}

absl::Status ResourceAssignShape(ShapeContext& c) {
  RETURN_IF_ERROR(CheckType(c, "dtype"));
  return PartialShape::Merge(VariableShapeOf(c, 0), c.input(1)).status();
}

absl::Status VariableShapeShape(ShapeContext& c) {
  const PartialShape shape = VariableShapeOf(c, 0);
  c.set_output(0, PartialShape({shape.has_rank() ? shape.rank() : PartialShape::kUnknown}));
  return absl::OkStatus();
}

// d(value)/d(handle): the gradient belongs to the variable.
absl::Status ReadGradient(GradientContext& c) {
  c.set_dx(0, c.raw_dy(0));
  return absl::OkStatus();
}

const OpRegistration kResourceVariableOps[] = {
    Op("VarHandleOp")
        .Output("resource: resource")
        .Attr("container: string = ''")
        .Attr("shared_name: string = ''")
        .Attr("debug_name: string = ''")
        .Attr("dtype: type")
        .Attr("shape: shape")
        .Attr("allowed_devices: list(string) = []")
        .Stateful()
        .Shape(VarHandleShape)
        .Kernel<HandleKernel>("N10tensorflow3VarE")
        .NotDifferentiable(),
    Op("ReadVariableOp")
        .Input("resource: resource")
        .Output("value: dtype")
        .Attr("dtype: type")
        .Stateful()
        .Shape(ReadShape)
        .Compute(Read)
        .Gradient(ReadGradient),
    Op("AssignVariableOp")
        .Input("resource: resource")
        .Input("value: dtype")
        .Attr("dtype: type")
        .Attr("validate_shape: bool = false")
        .Stateful()
        .Shape(ResourceAssignShape)
        .Kernel<ResourceAssignKernel>()
        .NotDifferentiable(),
    Op("AssignAddVariableOp")
        .Input("resource: resource")
        .Input("value: dtype")
        .Attr("dtype: type")
        .Stateful()
        .Shape(ResourceAssignShape)
        .Compute(AddToResource)
        .NotDifferentiable(),
    Op("AssignSubVariableOp")
        .Input("resource: resource")
        .Input("value: dtype")
        .Attr("dtype: type")
        .Stateful()
        .Shape(ResourceAssignShape)
        .Compute(SubtractFromResource)
        .NotDifferentiable(),
    Op("VarIsInitializedOp")
        .Input("resource: resource")
        .Output("is_initialized: bool")
        .Stateful()
        .Shape(shapes::Scalar)
        .Compute(ResourceIsInitialized)
        .NotDifferentiable(),
    Op("VariableShape")
        .Input("input: resource")
        .Output("output: out_type")
        .Attr("out_type: {int32, int64} = DT_INT32")
        .Stateful()
        .Shape(VariableShapeShape)
        .Compute(ShapeOfVariable)
        .NotDifferentiable(),
    Op("DestroyResourceOp")
        .Input("resource: resource")
        .Attr("ignore_lookup_error: bool = true")
        .Stateful()
        .Shape(shapes::NoOutputs)
        .Kernel<DestroyKernel>()
        .NotDifferentiable(),
};

}  // namespace

Output VarHandle(const Scope& s, DType dtype, const PartialShape& shape, const VariableOptions& options) {
  return s.Add(
      "VarHandleOp", {},
      {{"dtype", dtype}, {"shape", shape}, {"container", options.container}, {"shared_name", options.shared_name}});
}
Output ReadVariable(const Scope& s, Output resource, DType dtype) {
  return s.Add("ReadVariableOp", {resource}, {{"dtype", dtype}});
}
Output AssignVariable(const Scope& s, Output resource, Output value) {
  return s.Add("AssignVariableOp", {resource, value});
}
Output AssignAddVariable(const Scope& s, Output resource, Output value) {
  return s.Add("AssignAddVariableOp", {resource, value});
}
Output AssignSubVariable(const Scope& s, Output resource, Output value) {
  return s.Add("AssignSubVariableOp", {resource, value});
}
Output VariableShape(const Scope& s, Output resource, DType out_type) {
  return s.Add("VariableShape", {resource}, {{"out_type", out_type}});
}
Output DestroyResource(const Scope& s, Output resource, const DestroyResourceOptions& options) {
  return s.Add("DestroyResourceOp", {resource}, {{"ignore_lookup_error", options.ignore_lookup_error}});
}

}  // namespace thalweg
