// SPDX-License-Identifier: Apache-2.0
// Stage puts tuples into a staging area, Unstage takes the oldest out: a queue
// that is always there, so that one step can prepare what the next one uses.
#include <deque>

#include "thalweg/base/status.h"
#include "thalweg/ops/data_flow/staging.h"

namespace thalweg {
namespace {

class StagingArea final : public StagingBase {
 public:
  using GetDone = Queue::DequeueDone;

  StagingArea(const StagingLimits& limits, const std::vector<DType>&) : StagingBase(limits, /*puts_in_order=*/true) {}

  void Put(Tuple tuple, const WaitingCaller& caller, Done done) {
    const int64_t bytes = BytesOf(tuple);
    if (const absl::Status status = CheckFits(limits_, bytes); !status.ok()) return done(status);
    StartPut(
        caller,
        [this, bytes, tuple = std::move(tuple)](absl::Status*) mutable {
          mutex_.AssertHeld();
          if (IsFull(tuples_.size()) || !HasRoomFor(bytes)) return false;
          bytes_ += bytes;
          tuples_.push_back(std::move(tuple));
          return true;
        },
        std::move(done));
  }

  // Takes the oldest element or, if `peek` is set, copies the element with that index. `types` are the
  // expected types.
  void Get(std::optional<int64_t> peek, std::vector<DType> types, const WaitingCaller& caller, GetDone done) {
    const auto got = std::make_shared<Tuple>();
    StartGet(
        caller,
        [this, peek, got, types = std::move(types)](absl::Status* status) {
          mutex_.AssertHeld();
          const int64_t i = peek.value_or(0);
          if (i >= static_cast<int64_t>(tuples_.size())) return false;
          *status = CheckTypes(tuples_[i], types);
          if (!status->ok()) return true;
          if (peek.has_value()) {
            *got = tuples_[i];
            return true;
          }
          *got = std::move(tuples_.front());
          tuples_.pop_front();
          bytes_ -= BytesOf(*got);
          return true;
        },
        [got, done = std::move(done)](const absl::Status& status) mutable { done(status, std::move(*got)); });
  }

  void Clear() {
    ClearWith([this] {
      mutex_.AssertHeld();
      tuples_.clear();
    });
  }

  int64_t size() const {
    MutexLock lock(&mutex_);
    return static_cast<int64_t>(tuples_.size());
  }
  std::string Describe() const override { return absl::StrCat("a staging area with ", size(), " elements"); }

 private:
  std::deque<Tuple> tuples_ ABSL_GUARDED_BY(mutex_);
};

using AreaPtr = std::shared_ptr<StagingArea>;
using Done = AsyncKernel::Done;

void Put(KernelContext& c, const AreaPtr& area, Done done) {
  Tuple tuple;
  for (int i = 0; i < c.num_inputs(); ++i) tuple.push_back(c.TakeInput(i));
  area->Put(std::move(tuple), WaiterOf(c), std::move(done));
}

void GetAt(KernelContext& c, const AreaPtr& area, std::optional<int64_t> index, Done done) {
  area->Get(index, c.node().output_types(), WaiterOf(c),
            [&c, done = std::move(done)](const absl::Status& status, Tuple tuple) mutable {
              for (size_t i = 0; i < tuple.size(); ++i) c.set_output(static_cast<int>(i), std::move(tuple[i]));
              done(status);
            });
}

void Take(KernelContext& c, const AreaPtr& area, Done done) { GetAt(c, area, std::nullopt, std::move(done)); }

void Peek(KernelContext& c, const AreaPtr& area, Done done) {
  if (!c.input(0).shape().is_scalar()) return done(InvalidArgument("index must be scalar"));
  const int32_t index = c.input(0).scalar<int32_t>();
  if (index < 0) return done(InvalidArgument("index must not be negative, got ", index));
  GetAt(c, area, index, std::move(done));
}

void Size(KernelContext& c, const AreaPtr& area, Done done) { SetSize(c, area->size(), std::move(done)); }

void Clear(KernelContext& c, const AreaPtr& area, Done done) {
  area->Clear();
  done(absl::OkStatus());
}

using Area = StagingKernel<StagingArea>;

Op Make(absl::string_view name, absl::string_view types, Area::Access access) {
  Op op = StagingOp(name);
  if (name == "Stage") op.Input("values: dtypes");
  if (name == "StagePeek") op.Input("index: int32");
  if (name == "Unstage" || name == "StagePeek") op.Output("values: dtypes").Shape(shapes::Unknown);
  if (name == "StageSize") op.Output("size: int32").Shape(shapes::Scalar);
  StagingAttrs(op, types);
  StagingNames(op).Kernel<Area>(access);
  return op;
}

const OpRegistration kStageOps[] = {
    Make("Stage", "dtypes: list(type) >= 1", Put),      Make("Unstage", "dtypes: list(type) >= 1", Take),
    Make("StagePeek", "dtypes: list(type) >= 1", Peek), Make("StageSize", "dtypes: list(type)", Size),
    Make("StageClear", "dtypes: list(type)", Clear),
};

}  // namespace
}  // namespace thalweg
