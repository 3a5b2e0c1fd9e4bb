// SPDX-License-Identifier: Apache-2.0
// FakeQueue: the handle of a queue as two strings, for readers without a second version, such as LMDBReader.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/data_flow/queue.h"
#include "thalweg/ops/support/resource_kernel.h"

namespace thalweg {
namespace {

class FakeQueueKernel final : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const ResourceName name, ResourceNameOf(c, 0, Queue::kTypeName));
    strings_.Assign(Tensor::Vector<std::string>({name.container, name.name}));
    c.set_variable(0, &strings_);
    return absl::OkStatus();
  }

 private:
  Variable strings_{"handle", kString};
};

const OpRegistration kFakeQueue = Op("FakeQueue")
                                      .Input("resource: resource")
                                      .Output("handle: Ref(string)")
                                      .Stateful()
                                      .Shape(shapes::Unknown)
                                      .Kernel<FakeQueueKernel>()
                                      .NotDifferentiable();

}  // namespace
}  // namespace thalweg
