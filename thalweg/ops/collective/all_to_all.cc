// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/ops/collective/collective_kernel.h"
#include "thalweg/ops/collective/collective_schema.h"
#include "thalweg/ops/collective_ops.h"

namespace thalweg {
namespace collective {
namespace {

class AllToAllKernel final : public CollectiveKernel {
 public:
  AllToAllKernel() : CollectiveKernel(CollectiveKind::kAllToAll) {}

 protected:
  absl::Status Prepare(KernelContext& c, Collectives& collectives, CollectiveCall* call, Finish* finish) override {
    const Tensor input = c.input(0);
    if (input.rank() == 0) return InvalidArgument("input to all-to-all should have rank > 0, received 0");
    if (input.dim(0) != call->group_size) {
      return InvalidArgument("input to all-to-all first dimension size (", input.dim(0),
                             ") must be the same as the group size (", call->group_size, ")");
    }
    ASSIGN_OR_RETURN(Tensor output, Tensor::Allocate(input.dtype(), input.shape()));
    c.set_output(0, output);
    call->values = std::move(output);
    call->own = input;
    return absl::OkStatus();
  }
};

Op AllToAllV2() {
  Op op = Collective("CollectiveAllToAllV2").Input("input: T").Output("data: T").Attr(kReduceT);
  KeyInputs(op).Input("ordering_token: Nordering_token * resource");
  return Tokens(Hints(op)).Shape(shapes::LikeInput0).Kernel<AllToAllKernel>();
}

const OpRegistration kAllToAllOps[] = {
    AllToAllV2(), WithCommunicator("CollectiveAllToAllV3").Attr("timeout_seconds: float = 0").Kernel<AllToAllKernel>()};

}  // namespace
}  // namespace collective

Output CollectiveAllToAll(const Scope& s, Output input, const CollectiveOptions& options) {
  std::vector<OpInput> inputs = collective::WithKeyInputs(s, {input}, options);
  inputs.emplace_back(std::vector<Output>());  // no tokens
  return s.Add("CollectiveAllToAllV2", std::move(inputs), collective::KeyInputAttrsOf(options));
}

}  // namespace thalweg
