// SPDX-License-Identifier: Apache-2.0
// Ops of tf.contrib that change variables: ZeroInitializer and ZeroVarInitializer give a variable its first value, of
// zeros, without a second tensor of that size. ObtainNext goes round a list with a counter in a variable.
#include <memory>
#include <optional>

#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/state/variable_update.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {
namespace {

absl::Status SetToZeros(Variable& variable, const PartialShape& declared) {
  const std::optional<Shape> shape = declared.AsShape();
  if (!shape.has_value()) return InvalidArgument("Shape ", declared, " is not fully defined");
  return variable.Update([&](Tensor& value) -> absl::Status {
    if (value.has_value()) return InvalidArgument("input is already initialized");
    ASSIGN_OR_RETURN(value, Tensor::Allocate(variable.dtype(), *shape));
    ClearElements(&value);
    return absl::OkStatus();
  });
}

absl::Status ZeroInitializer(KernelContext& c) {
  Variable& variable = c.variable(0);
  RETURN_IF_ERROR(SetToZeros(variable, variable.shape()));
  c.set_variable(0, &variable);
  return absl::OkStatus();
}

class ZeroVarInitializerKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(dtype_, init.Attr<DType>("dtype"));
    ASSIGN_OR_RETURN(shape_, init.Attr<PartialShape>("shape"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(ResourceHandle handle, HandleOf(c, 0));
    if (handle.device != c.device().name()) {
      return InvalidArgument("Trying to access resource ", handle.name, " located in device ", handle.device,
                             " from device ", c.device().name());
    }
    ASSIGN_OR_RETURN(const std::shared_ptr<ResourceVariable> variable,
                     c.device().resources().FindOrCreate<ResourceVariable>(
                         handle.container, handle.name, [&]() -> absl::StatusOr<std::shared_ptr<ResourceVariable>> {
                           return std::make_shared<ResourceVariable>(handle.name, dtype_, shape_);
                         }));
    if (variable->dtype() != dtype_) {
      return InvalidArgument("the variable is of type ", variable->dtype(), ", but the node says ", dtype_);
    }
    RETURN_IF_ERROR(SetToZeros(*variable, shape_));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape()));
    *out->mutable_data<ResourceHandle>() = std::move(handle);
    return absl::OkStatus();
  }

 private:
  DType dtype_ = kInvalid;
  PartialShape shape_;
};

absl::Status ObtainNext(KernelContext& c) {
  const Tensor& list = c.input(0);
  if (list.num_elements() == 0) return InvalidArgument("list is empty");
  return c.variable(1).Update([&](Tensor& value) -> absl::Status {
    RETURN_IF_ERROR(CheckInitialized(c.variable(1), value));
    if (value.num_elements() != 1) return InvalidArgument("counter must be a scalar, got shape ", value.shape());
    RETURN_IF_ERROR(MakeWritable(value));
    int64_t& counter = *value.mutable_data<int64_t>();
    // Also if the program set it to a negative number.
    const uint64_t n = static_cast<uint64_t>(list.num_elements());
    const int64_t next = static_cast<int64_t>((static_cast<uint64_t>(counter) + 1) % n);
    counter = next;
    c.set_output(0, Tensor::Scalar<std::string>(list.data<std::string>()[next]));
    return absl::OkStatus();
  });
}

const OpRegistration kZeroInitializerOps[] = {
    Op("ZeroInitializer")
        .Input("ref: Ref(T)")
        .Output("output_ref: Ref(T)")
        .Attr("T: realnumbertype")
        .AllowsUninitializedInput()
        .Shape(shapes::LikeInput0)
        .Compute(ZeroInitializer)
        .NotDifferentiable(),
    Op("ZeroVarInitializer")
        .Input("var: resource")
        .Output("output_var: resource")
        .Attr("dtype: type")
        .Attr("shape: shape")
        .AllowsUninitializedInput()
        .Stateful()
        .Shape(shapes::Scalar)
        .Kernel<ZeroVarInitializerKernel>()
        .NotDifferentiable(),
    Op("ObtainNext")
        .Input("list: string")
        .Input("counter: Ref(int64)")
        .Output("out_element: string")
        .Shape(shapes::Scalar)
        .Compute(ObtainNext)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
