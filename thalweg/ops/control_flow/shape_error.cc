// SPDX-License-Identifier: Apache-2.0
// _ShapeError stands for a node whose inputs cannot fit (graph/unusable_node.h): it fails when it runs, and not if it
// is in a branch that the step does not take.
#include "thalweg/graph/unusable_node.h"
#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

class ShapeErrorKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(message_, init.Attr<std::string>("message"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext&) override { return InvalidArgument(message_); }

 private:
  std::string message_;
};

const OpRegistration kShapeErrorOp = Op(kFailingOp)
                                         .Input("inputs: Tin")
                                         .Output("outputs: Tout")
                                         .Attr("Tin: list(type) >= 0")
                                         .Attr("Tout: list(type) >= 0")
                                         .Attr("message: string")
                                         .Stateful()  // not to be folded
                                         .Shape(shapes::Unknown)
                                         .Kernel<ShapeErrorKernel>()
                                         .NotDifferentiable();

}  // namespace
}  // namespace thalweg
