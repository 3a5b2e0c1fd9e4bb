// SPDX-License-Identifier: Apache-2.0
// Tensors that stay in the session: GetSessionHandle keeps one and gives its
// name, "node;number;device", with which GetSessionTensor reads it in a later
// step and DeleteSessionTensor lets it go.
#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/support/resource_kernel.h"

namespace thalweg {
namespace {

constexpr char kHandleContainer[] = "TensorHandle";

class KeptTensor final : public Resource {
 public:
  explicit KeptTensor(Tensor value) : value(std::move(value)) {}
  std::string Describe() const override { return "a tensor that the session keeps"; }
  const Tensor value;
};

absl::StatusOr<ResourceManager*> Store(KernelContext& c) {
  if (c.step().session_resources != nullptr) return c.step().session_resources;
  return FailedPrecondition(c.node().op(), " called on null session state");
}

absl::StatusOr<std::string> NameIn(const Tensor& handle) {
  if (!handle.shape().is_scalar()) return InvalidArgument("handle must be scalar");
  return handle.scalar<std::string>();
}

absl::Status Keep(KernelContext& c) {
  ASSIGN_OR_RETURN(ResourceManager * store, Store(c));
  const std::string name = absl::StrCat(c.node().name(), ";", NextResourceNumber(), ";", c.device().name());
  RETURN_IF_ERROR(store->Create<KeptTensor>(kHandleContainer, name, std::make_shared<KeptTensor>(c.input(0))));
  if (c.output_type(0) == kResource) {
    c.set_output(
        0,
        Tensor::Scalar(ResourceHandle{
            .device = c.device().name(), .container = kHandleContainer, .name = name, .type_name = kHandleContainer}));
  } else {
    c.set_output(0, Tensor::Scalar(name));
  }
  return absl::OkStatus();
}

absl::Status ReadSessionTensor(KernelContext& c) {
  ASSIGN_OR_RETURN(ResourceManager * store, Store(c));
  ASSIGN_OR_RETURN(const std::string name, NameIn(c.input(0)));
  const absl::StatusOr<std::shared_ptr<KeptTensor>> kept = store->Find<KeptTensor>(kHandleContainer, name);
  if (!kept.ok()) return InvalidArgument("The tensor with handle '", name, "' is not in the session store.");
  if ((*kept)->value.dtype() != c.output_type(0)) {
    return InvalidArgument("The tensor with handle '", name, "' is of ", (*kept)->value.dtype(), ", expected ",
                           c.output_type(0));
  }
  c.set_output(0, (*kept)->value);
  return absl::OkStatus();
}

absl::Status Delete(KernelContext& c) {
  ASSIGN_OR_RETURN(ResourceManager * store, Store(c));
  ASSIGN_OR_RETURN(const std::string name, NameIn(c.input(0)));
  if (store->Delete<KeptTensor>(kHandleContainer, name).ok()) return absl::OkStatus();
  return InvalidArgument("Failed to delete a tensor with handle '", name, "' in the session store.");
}

const OpRegistration kSessionTensorOps[] = {
    Op("GetSessionHandle")
        .Input("value: T")
        .Output("handle: string")
        .Attr("T: type")
        .Stateful()
        .Shape(shapes::Scalar)
        .Compute(Keep)
        .NotDifferentiable(),
    Op("GetSessionHandleV2")
        .Input("value: T")
        .Output("handle: resource")
        .Attr("T: type")
        .Stateful()
        .Shape(shapes::Scalar)
        .Compute(Keep)
        .NotDifferentiable(),
    Op("GetSessionTensor")
        .Input("handle: string")
        .Output("value: dtype")
        .Attr("dtype: type")
        .Stateful()
        .Shape(shapes::Unknown)
        .Compute(ReadSessionTensor)
        .NotDifferentiable(),
    Op("DeleteSessionTensor")
        .Input("handle: string")
        .Stateful()
        .Shape(shapes::NoOutputs)
        .Compute(Delete)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
