// SPDX-License-Identifier: Apache-2.0
// FIFOQueue: first in, first out. PaddingFIFOQueue: the same, of tensors whose
// shapes differ in some dimensions; batches are filled up with zeros.
#include "thalweg/ops/data_flow/queue_kernel.h"
#include "thalweg/ops/data_flow/token_queue.h"
#include "thalweg/ops/data_flow_ops.h"

namespace thalweg {
namespace {

class FifoQueueKernel final : public QueueKernel {
 public:
  explicit FifoQueueKernel(bool may_pad) : QueueKernel(may_pad ? "PaddingFIFOQueue" : "FIFOQueue") {
    options_.may_pad = may_pad;
    options_.share_batches = true;
  }

 private:
  absl::StatusOr<std::shared_ptr<Queue>> Make(const std::string& name) override {
    return TokenQueue::Is(options_) ? TokenQueue::Make(options_) : QueueKernel::Make(name);
  }
};

Op FifoQueue(absl::string_view name, bool may_pad) {
  return QueueOp(name, "component_types: list(type) >= 1", "shapes: list(shape) >= 0 = []")
      .Attr("container: string = ''")
      .Attr("shared_name: string = ''")
      .Kernel<FifoQueueKernel>(may_pad);
}

const OpRegistration kFifoQueueOps[] = {FifoQueue("FIFOQueue", false), FifoQueue("FIFOQueueV2", false),
                                        FifoQueue("PaddingFIFOQueue", true), FifoQueue("PaddingFIFOQueueV2", true)};

Output Add(const Scope& s, const char* op, const std::vector<DType>& types, const std::vector<PartialShape>& shapes,
           const QueueOptions& q) {
  return s.Add(op, {},
               {{"component_types", types},
                {"shapes", shapes},
                {"capacity", q.capacity},
                {"container", q.container},
                {"shared_name", q.shared_name}});
}

}  // namespace

Output FIFOQueue(const Scope& s, const std::vector<DType>& types, const std::vector<PartialShape>& shapes,
                 const QueueOptions& q) {
  return Add(s, "FIFOQueueV2", types, shapes, q);
}
Output PaddingFIFOQueue(const Scope& s, const std::vector<DType>& types, const std::vector<PartialShape>& shapes,
                        const QueueOptions& q) {
  return Add(s, "PaddingFIFOQueueV2", types, shapes, q);
}

}  // namespace thalweg
