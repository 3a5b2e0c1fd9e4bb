// SPDX-License-Identifier: Apache-2.0
// PriorityQueue: takes out the element whose priority, its first component (an
// int64 that the op adds to the types), is the lowest.
#include <algorithm>

#include "thalweg/ops/data_flow/queue_kernel.h"
#include "thalweg/ops/data_flow_ops.h"

namespace thalweg {
namespace {

// A heap, as TensorFlow's: elements of equal priority come out as they happen
// to lie in it.
class Priorities final : public QueueStore {
 public:
  int64_t size() const override { return static_cast<int64_t>(heap_.size()); }
  void Push(Tuple tuple) override {
    heap_.push_back(std::move(tuple));
    std::push_heap(heap_.begin(), heap_.end(), Later);
  }
  Tuple Pop() override {
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    Tuple tuple = std::move(heap_.back());
    heap_.pop_back();
    return tuple;
  }
  void PutBack(Tuple tuple) override { Push(std::move(tuple)); }

 private:
  static bool Later(const Tuple& a, const Tuple& b) { return a[0].scalar<int64_t>() > b[0].scalar<int64_t>(); }

  std::vector<Tuple> heap_;
};

class PriorityQueueKernel final : public QueueKernel {
 public:
  PriorityQueueKernel() : QueueKernel("PriorityQueue") { options_.whole_batches = true; }

  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(QueueKernel::Init(init));
    if (options_.shapes.empty() && !options_.types.empty()) {
      return InvalidArgument("PriorityQueue needs the shapes of its components, got none for types ",
                             ListTypes(options_.types));
    }
    options_.types.insert(options_.types.begin(), kInt64);
    options_.shapes.insert(options_.shapes.begin(), PartialShape(Shape()));
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<QueueStore> NewStore() const override { return PriorityStore(); }
};

Op Priority(absl::string_view name) {
  return QueueOp(name, "component_types: list(type) >= 0 = []", "shapes: list(shape) >= 0")
      .Attr("container: string = ''")
      .Attr("shared_name: string = ''")
      .Kernel<PriorityQueueKernel>();
}

const OpRegistration kPriorityQueueOps[] = {Priority("PriorityQueue"), Priority("PriorityQueueV2")};

}  // namespace

std::unique_ptr<QueueStore> PriorityStore() { return std::make_unique<Priorities>(); }

Output PriorityQueue(const Scope& s, const std::vector<DType>& types, const std::vector<PartialShape>& shapes,
                     const QueueOptions& q) {
  return s.Add("PriorityQueueV2", {},
               {{"component_types", types},
                {"shapes", shapes},
                {"capacity", q.capacity},
                {"container", q.container},
                {"shared_name", q.shared_name}});
}

}  // namespace thalweg
