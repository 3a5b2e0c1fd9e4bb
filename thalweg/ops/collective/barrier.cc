// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include "thalweg/base/status.h"
#include "thalweg/ops/collective/collective_schema.h"
#include "thalweg/ops/collective/reduce_kernel.h"
#include "thalweg/ops/collective_ops.h"

namespace thalweg {
namespace collective {
namespace {

// Without shared memory and connections of their own, members add up one element, which has no meaning.
class BarrierKernel final : public ReduceKernel {
 public:
  BarrierKernel() : ReduceKernel(CollectiveKind::kBarrier) {}

  absl::Status Init(const KernelInit& init) override {
    // ReduceKernel's would read attributes that this op does not have.
    RETURN_IF_ERROR(CollectiveKernel::Init(init));  // NOLINT(bugprone-parent-virtual-call)
    return InitReduction(init, kInt32, "Add", "Id");
  }

 protected:
  int first_key_input() const override { return 0; }
  absl::Status Prepare(KernelContext& c, Collectives& collectives, CollectiveCall* call, Finish* finish) override {
    call->values = Tensor::Zeros(kInt32, {1});
    SetReduction(call);
    return absl::OkStatus();
  }
};

Op Barrier() {
  Op op = Collective("ThalwegCollectiveBarrier");
  return Hints(KeyInputs(op)).Shape(shapes::NoOutputs).Kernel<BarrierKernel>().NotDifferentiable();
}

const OpRegistration kBarrierOp = Barrier();

}  // namespace
}  // namespace collective

Output CollectiveBarrier(const Scope& s, const CollectiveOptions& options) {
  return s.Add("ThalwegCollectiveBarrier", collective::WithKeyInputs(s, {}, options),
               collective::KeyInputAttrsOf(options));
}

}  // namespace thalweg
