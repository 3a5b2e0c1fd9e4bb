// SPDX-License-Identifier: Apache-2.0
// RandomShuffleQueue dequeues a random element. While it is open, at least `min_after_dequeue` elements stay, so
// that there is a choice.
#include "thalweg/kernel/philox.h"
#include "thalweg/ops/data_flow/queue_kernel.h"
#include "thalweg/ops/data_flow_ops.h"

namespace thalweg {
namespace {

// The last element takes the place of the one that was taken.
class ShuffleStore final : public QueueStore {
 public:
  explicit ShuffleStore(Philox generator) : next_(generator) {}

  int64_t size() const override { return static_cast<int64_t>(tuples_.size()); }
  void Push(Tuple tuple) override { tuples_.push_back(std::move(tuple)); }
  Tuple Pop() override {
    std::swap(tuples_[next_() % tuples_.size()], tuples_.back());
    Tuple tuple = std::move(tuples_.back());
    tuples_.pop_back();
    return tuple;
  }
  void PutBack(Tuple tuple) override { Push(std::move(tuple)); }

 private:
  PhiloxSingle next_;
  std::vector<Tuple> tuples_;
};

class RandomShuffleQueueKernel final : public QueueKernel {
 public:
  RandomShuffleQueueKernel() : QueueKernel("RandomShuffleQueue") {}

  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(QueueKernel::Init(init));
    ASSIGN_OR_RETURN(options_.min_after_dequeue, init.Attr<int64_t>("min_after_dequeue"));
    if (options_.min_after_dequeue < 0) {
      return InvalidArgument("min_after_dequeue ", options_.min_after_dequeue, " must be >= 0");
    }
    if (options_.capacity >= 0 && options_.min_after_dequeue >= options_.capacity) {
      return InvalidArgument("min_after_dequeue ", options_.min_after_dequeue, " must be < capacity ",
                             options_.capacity);
    }
    ASSIGN_OR_RETURN(options_.seed, init.Attr<int64_t>("seed"));
    ASSIGN_OR_RETURN(options_.seed2, init.Attr<int64_t>("seed2"));
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<QueueStore> NewStore() const override {
    SharedPhilox generator;  // draws seeds if none are given
    generator.Seed(options_.seed, options_.seed2);
    return std::make_unique<ShuffleStore>(generator.Reserve(0));
  }
};

Op Shuffle(absl::string_view name) {
  return QueueOp(name, "component_types: list(type) >= 1", "shapes: list(shape) >= 0 = []")
      .Attr("min_after_dequeue: int = 0")
      .Attr("seed: int = 0")
      .Attr("seed2: int = 0")
      .Attr("container: string = ''")
      .Attr("shared_name: string = ''")
      .Kernel<RandomShuffleQueueKernel>();
}

const OpRegistration kRandomShuffleQueueOps[] = {Shuffle("RandomShuffleQueue"), Shuffle("RandomShuffleQueueV2")};

}  // namespace

Output RandomShuffleQueue(const Scope& s, const std::vector<DType>& types, const std::vector<PartialShape>& shapes,
                          const RandomShuffleQueueOptions& q) {
  return s.Add("RandomShuffleQueueV2", {},
               {{"component_types", types},
                {"shapes", shapes},
                {"capacity", q.capacity},
                {"min_after_dequeue", q.min_after_dequeue},
                {"seed", q.seed},
                {"seed2", q.seed2},
                {"container", q.container},
                {"shared_name", q.shared_name}});
}

}  // namespace thalweg
