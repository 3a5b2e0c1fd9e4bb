// SPDX-License-Identifier: Apache-2.0
// Ops that ask the runtime something, or tell it something that a CPU does not
// need: SyncDevice, IsTensorFloat32Enabled, IsResourceHandleRefCounting,
// MakeWeakResourceHandle.
#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

template <bool kAnswer>
absl::Status Answer(KernelContext& c) {
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape()));
  *out->mutable_data<bool>() = kAnswer;
  return absl::OkStatus();
}

absl::Status Pass(KernelContext& c) {
  c.set_output(0, c.TakeInput(0));
  return absl::OkStatus();
}

absl::Status Nothing(KernelContext&) { return absl::OkStatus(); }

const OpRegistration kRuntimeInfoOps[] = {
    Op("SyncDevice").Stateful().Shape(shapes::NoOutputs).Compute(Nothing).NotDifferentiable(),
    // GPUs may use that type, if there are any.
    Op("IsTensorFloat32Enabled")
        .Output("enabled: bool")
        .Stateful()
        .Shape(shapes::Scalar)
        .Compute(Answer<true>)
        .NotDifferentiable(),
    // Handles are names: the device keeps what they name.
    Op("IsResourceHandleRefCounting")
        .Input("handle: resource")
        .Output("result: bool")
        .Stateful()
        .Shape(shapes::Scalar)
        .Compute(Answer<false>)
        .NotDifferentiable(),
    Op("MakeWeakResourceHandle")
        .Input("handle: resource")
        .Output("dup: resource")
        .Stateful()
        .Shape(shapes::Scalar)
        .Compute(Pass)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
