// SPDX-License-Identifier: Apache-2.0
// Shared by the ops that create queues.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/data_flow/queue.h"
#include "thalweg/ops/support/resource_kernel.h"

namespace thalweg {

class QueueKernel : public ResourceKernel<Queue> {
 public:
  explicit QueueKernel(const char* kind) { options_.kind = kind; }

  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(ResourceKernel::Init(init));
    op_ = init.node().op();
    options_.name = name_.name;
    ASSIGN_OR_RETURN(options_.capacity, init.Attr<int64_t>("capacity"));
    ASSIGN_OR_RETURN(options_.types, init.Attr<std::vector<DType>>("component_types"));
    ASSIGN_OR_RETURN(options_.shapes, init.Attr<std::vector<PartialShape>>("shapes"));
    return absl::OkStatus();
  }

 protected:
  virtual std::unique_ptr<QueueStore> NewStore() const { return FifoStore(); }
  absl::StatusOr<std::shared_ptr<Queue>> Make(const std::string&) override { return Queue::Make(options_, NewStore()); }
  absl::Status Verify(const Queue& found) override { return found.Matches(options_, op_); }

  QueueConfig options_;

 private:
  std::string op_;
};

// Their common signature. `handle` is a ref to two strings, or a resource for "...V2".
inline Op QueueOp(absl::string_view name, absl::string_view types, absl::string_view shapes) {
  const bool resource = name.size() > 2 && name.substr(name.size() - 2) == "V2";
  Op op(name);
  op.Output(resource ? "handle: resource" : "handle: Ref(string)")
      .Attr(types)
      .Attr(shapes)
      .Attr("capacity: int = -1")
      .Stateful()
      .Shape(HandleShape)
      .NotDifferentiable();
  return op;
}

}  // namespace thalweg
