// SPDX-License-Identifier: Apache-2.0
// An iterator whose elements go to several devices in turn: element k to device
// k mod n. Each device asks for its own. What others have not asked for yet is
// kept for them.
//
//   MultiDeviceIterator(devices) -> handle
//   MultiDeviceIteratorInit(dataset, handle, max_buffer_size) -> the number of
//     this beginning, which later calls must know
//   MultiDeviceIteratorGetNextFromShard(handle, shard, number) -> element
//   MultiDeviceIteratorToStringHandle, MultiDeviceIteratorFromStringHandle
#include <atomic>
#include <deque>

#include "thalweg/base/mutex.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/dataset/dataset_schema.h"
#include "thalweg/ops/dataset/iterator.h"
#include "thalweg/ops/support/resource_kernel.h"
#include "thalweg/ops/support/wait_list.h"

namespace thalweg {
namespace {

// Thread-safe.
class MultiDeviceIterator final : public Resource {
 public:
  static constexpr char kTypeName[] = "N10tensorflow4data12_GLOBAL__N_119MultiDeviceIteratorE";

  MultiDeviceIterator(std::vector<DType> types, std::vector<PartialShape> shapes, int64_t shards)
      : types_(types), shards_(shards), iterator_(std::make_shared<Iterator>(std::move(types), std::move(shapes))) {}

  const std::vector<DType>& types() const { return types_; }
  int64_t shards() const { return shards_; }

  // Begins a sequence, of which at most `max_kept` elements per device are kept. Returns the number of this beginning.
  int64_t Start(std::shared_ptr<RunningSequence> sequence, int64_t max_kept) {
    iterator_->Set(std::move(sequence));
    WaitList::Ended ended;
    int64_t beginning = 0;
    {
      MutexLock lock(&mutex_);
      kept_.assign(shards_, {});
      next_ = 0;
      max_kept_ = static_cast<size_t>(max_kept);
      drawing_ = false;
      beginning = ++beginning_;
      waiting_.Flush(&ended);  // calls for the old sequence fail
    }
    WaitList::End(std::move(ended));
    return beginning;
  }

  // Hands out the next element of a shard: one that is kept, or the first that comes for it. One call at a time draws
  // elements; the others wait, also while the next element's device has `max_kept` elements that it has not taken.
  static void Get(std::shared_ptr<MultiDeviceIterator> iterator, Step& step, int64_t shard, int64_t beginning,
                  absl::AnyInvocable<void(NextElement)> done) {
    auto call = std::make_shared<Call>();
    call->iterator = std::move(iterator);
    call->step = &step;
    call->shard = shard;
    call->beginning = beginning;
    call->done = std::move(done);
    Wait(std::move(call));
  }

  std::string Describe() const override { return "an iterator for several devices"; }

 private:
  struct Call {
    std::shared_ptr<MultiDeviceIterator> iterator;
    Step* step = nullptr;
    int64_t shard = 0;
    int64_t beginning = 0;
    absl::AnyInvocable<void(NextElement)> done;
    std::optional<NextElement> taken;  // none: the call may draw
  };

  // Waits until there is an element for the call, or the call may draw elements.
  static void Wait(std::shared_ptr<Call> call) {
    MultiDeviceIterator& self = *call->iterator;
    self.waiting_.Start(
        call->iterator, &self.mutex_, "GetNext", {call->step->cancellation, call->step->pool},
        [call](absl::Status* status) { return call->iterator->Attempt(*call, status); },
        [call](const absl::Status& status) {
          if (!status.ok()) return call->done(status);
          if (call->taken.has_value()) return call->done(*std::move(call->taken));
          Draw(call);
        },
        [&self](WaitList::Ended* ended) {
          while (self.waiting_.Flush(ended)) {
          }
        });
  }

  bool Attempt(Call& call, absl::Status* status) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    mutex_.AssertHeld();
    if (*status = Check(call); !status->ok()) return true;
    if (TakeKept(call)) return true;
    if (drawing_ || !HasRoom()) return false;
    drawing_ = true;
    return true;
  }

  // Draws until there is an element for the call or the next device's room is used up. Elements that come at once do
  // not nest calls, however many devices there are.
  static void Draw(std::shared_ptr<Call> call) {
    bool more = true;
    while (more) {
      const auto steps = std::make_shared<std::atomic<int>>(0);  // the draw has returned, the element has come
      const auto keeps_on = std::make_shared<bool>(false);
      call->iterator->iterator_->Get(*call->step, [call, steps, keeps_on](NextElement element) {
        *keeps_on = call->iterator->Keep(*call, std::move(element));
        if (steps->fetch_add(1) == 0) return;  // the loop goes on
        *keeps_on ? Draw(call) : Wait(call);
      });
      if (steps->fetch_add(1) == 0) return;  // the callback goes on
      more = *keeps_on;
    }
    Wait(std::move(call));
  }

  // Returns true if the call draws on.
  bool Keep(const Call& call, NextElement element) {
    WaitList::Ended ended;
    bool draws_on = false;
    {
      MutexLock lock(&mutex_);
      if (call.beginning != beginning_) return false;  // the iterator was restarted meanwhile
      if (element.ok() && !element->has_value()) {
        for (std::deque<NextElement>& kept : kept_) {
          if (kept.empty() || !kept.back().ok() || kept.back()->has_value()) kept.push_back(std::nullopt);
        }
      } else {
        kept_[next_++ % shards_].push_back(std::move(element));
      }
      draws_on = kept_[call.shard].empty() && HasRoom();
      if (!draws_on) {
        drawing_ = false;
        while (waiting_.Flush(&ended)) {
        }
      }
    }
    WaitList::End(std::move(ended));
    return draws_on;
  }

  absl::Status Check(const Call& call) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (beginning_ == 0) return FailedPrecondition("MultiDeviceIterator has not been initialized.");
    if (call.beginning != beginning_) {
      return InvalidArgument("Invalid incarnation id. Provided: ", call.beginning, "; Expected: ", beginning_);
    }
    if (call.shard < 0 || call.shard >= shards_) {
      return InvalidArgument("shard ", call.shard, " of ", shards_, " is asked for");
    }
    return absl::OkStatus();
  }

  bool TakeKept(Call& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::deque<NextElement>& mine = kept_[call.shard];
    if (mine.empty()) return false;
    call.taken = std::move(mine.front());
    mine.pop_front();
    // The end stays the end.
    if (call.taken->ok() && !(*call.taken)->has_value()) mine.push_back(std::nullopt);
    return true;
  }

  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return kept_[next_ % shards_].size() < max_kept_; }

  const std::vector<DType> types_;
  const int64_t shards_;
  const std::shared_ptr<Iterator> iterator_;
  Mutex mutex_;
  WaitList waiting_{/*in_order=*/false};  // guarded by mutex_
  int64_t beginning_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t next_ ABSL_GUARDED_BY(mutex_) = 0;  // the shard of the next element, modulo their number
  size_t max_kept_ ABSL_GUARDED_BY(mutex_) = 1;
  bool drawing_ ABSL_GUARDED_BY(mutex_) = false;  // a call draws elements
  std::vector<std::deque<NextElement>> kept_ ABSL_GUARDED_BY(mutex_);
};

// A MultiDeviceIterator that input i names: of the device, or an anonymous one of the step.
absl::StatusOr<std::shared_ptr<MultiDeviceIterator>> FindMultiDevice(KernelContext& c, int i) {
  if (auto anonymous = FindStepResource<MultiDeviceIterator>(c, i); anonymous.ok()) return anonymous;
  return FindResource<MultiDeviceIterator>(c, i);
}

// Lives as long as the step.
class AnonymousMultiDeviceKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(types_, init.Attr<std::vector<DType>>("output_types"));
    ASSIGN_OR_RETURN(shapes_, init.Attr<std::vector<PartialShape>>("output_shapes"));
    ASSIGN_OR_RETURN(const std::vector<std::string> devices, init.Attr<std::vector<std::string>>("devices"));
    shards_ = static_cast<int64_t>(devices.size());
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    if (c.step().resources == nullptr) return Internal("No step container.");
    const ResourceName name{"", absl::StrCat("anonymous_multi_device_iterator_", NextResourceNumber())};
    RETURN_IF_ERROR(c.step().resources->Create(name.container, name.name,
                                               std::make_shared<MultiDeviceIterator>(types_, shapes_, shards_)));
    SetStepHandle(c, name, MultiDeviceIterator::kTypeName, nullptr);
    if (c.num_outputs() > 1) c.set_output(1, Tensor::Scalar(Variant()));
    return absl::OkStatus();
  }

 private:
  std::vector<DType> types_;
  std::vector<PartialShape> shapes_;
  int64_t shards_ = 0;
};

// The iterator is deleted with the step.
absl::Status ComputeDeleteMultiDevice(KernelContext& c) { return absl::OkStatus(); }

class MultiDeviceKernel final : public ResourceKernel<MultiDeviceIterator> {
 public:
  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(ResourceKernel::Init(init));
    ASSIGN_OR_RETURN(types_, init.Attr<std::vector<DType>>("output_types"));
    ASSIGN_OR_RETURN(shapes_, init.Attr<std::vector<PartialShape>>("output_shapes"));
    ASSIGN_OR_RETURN(const std::vector<std::string> devices, init.Attr<std::vector<std::string>>("devices"));
    shards_ = static_cast<int64_t>(devices.size());
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::shared_ptr<MultiDeviceIterator>> Make(const std::string&) override {
    return std::make_shared<MultiDeviceIterator>(types_, shapes_, shards_);
  }
  absl::Status Verify(const MultiDeviceIterator& found) override {
    if (found.types() == types_ && found.shards() == shards_) return absl::OkStatus();
    return InvalidArgument("the iterator '", name_.name, "' has other output_types or devices than this op");
  }

  std::vector<DType> types_;
  std::vector<PartialShape> shapes_;
  int64_t shards_ = 0;
};

absl::Status ComputeInit(KernelContext& c) {
  ASSIGN_OR_RETURN(DatasetPtr dataset, DatasetIn(c.input(0)));
  ASSIGN_OR_RETURN(const std::shared_ptr<MultiDeviceIterator> iterator, FindMultiDevice(c, 1));
  ASSIGN_OR_RETURN(const int64_t limit, IntArgument(c, 2, "max_buffer_size"));
  if (limit <= 0) return InvalidArgument("max_buffer_size must be greater than zero, got ", limit);
  ASSIGN_OR_RETURN(std::shared_ptr<RunningSequence> sequence, RunningSequence::Start(c, std::move(dataset)));
  c.set_output(0, Tensor::Scalar(iterator->Start(std::move(sequence), limit)));
  return absl::OkStatus();
}

class GetFromShardKernel final : public AsyncKernel {
 public:
  void ComputeAsync(KernelContext& c, Done done) override {
    absl::StatusOr<std::shared_ptr<MultiDeviceIterator>> found = FindMultiDevice(c, 0);
    if (!found.ok()) return done(found.status());
    const absl::StatusOr<int64_t> shard = IntArgument(c, 1, "shard_num");
    if (!shard.ok()) return done(shard.status());
    const absl::StatusOr<int64_t> beginning = IntArgument(c, 2, "incarnation_id");
    if (!beginning.ok()) return done(beginning.status());
    MultiDeviceIterator::Get(*std::move(found), c.step(), *shard, *beginning,
                             [&c, done = std::move(done)](NextElement element) mutable {
                               if (!element.ok()) return done(element.status());
                               if (!element->has_value()) return done(OutOfRange("End of sequence"));
                               done(ShowElement(c, **std::move(element)));
                             });
  }
};

absl::Status MultiDeviceToString(KernelContext& c) {
  RETURN_IF_ERROR(FindMultiDevice(c, 0).status());
  return HandleToString(c);
}

absl::Status MultiDeviceFromString(KernelContext& c) {
  ASSIGN_OR_RETURN(const ResourceHandle handle, HandleFromString(c));
  RETURN_IF_ERROR(c.device().resources().Find<MultiDeviceIterator>(handle.container, handle.name).status());
  c.set_output(0, Tensor::Scalar(handle));
  return absl::OkStatus();
}

const OpRegistration kMultiDeviceIteratorOps[] = {
    SpecifiedOp("MultiDeviceIterator", "", "handle: resource",
                "devices: list(string) >= 1, shared_name: string, container: string, TYPES")
        .Stateful()
        .Shape(HandleShape)
        .Kernel<MultiDeviceKernel>(),
    SpecifiedOp("AnonymousMultiDeviceIterator", "", "handle: resource, deleter: variant",
                "devices: list(string) >= 1, TYPES")
        .Stateful()
        .Shape(shapes::Scalar)
        .Kernel<AnonymousMultiDeviceKernel>(),
    SpecifiedOp("AnonymousMultiDeviceIteratorV3", "", "handle: resource", "devices: list(string) >= 1, TYPES")
        .Stateful()
        .Shape(shapes::Scalar)
        .Kernel<AnonymousMultiDeviceKernel>(),
    SpecifiedOp("DeleteMultiDeviceIterator",
                "multi_device_iterator: resource, iterators: N * resource, deleter: variant", "", "N: int >= 0")
        .Stateful()
        .Shape(shapes::NoOutputs)
        .Compute(ComputeDeleteMultiDevice),
    SpecifiedOp("MultiDeviceIteratorInit", "dataset: variant, multi_device_iterator: resource, max_buffer_size: int64",
                "incarnation_id: int64", "")
        .Stateful()
        .Shape(shapes::Scalar)
        .Compute(ComputeInit),
    SpecifiedOp("MultiDeviceIteratorGetNextFromShard",
                "multi_device_iterator: resource, shard_num: int32, incarnation_id: int64", "components: output_types",
                "TYPES")
        .Stateful()
        .Shape(ElementShapes)
        .Kernel<GetFromShardKernel>(),
    SpecifiedOp("MultiDeviceIteratorToStringHandle", "multi_device_iterator: resource", "string_handle: string", "")
        .Stateful()
        .Shape(shapes::Scalar)
        .Compute(MultiDeviceToString),
    SpecifiedOp("MultiDeviceIteratorFromStringHandle", "string_handle: string", "multi_device_iterator: resource",
                "output_types: list(type) >= 0 = [], output_shapes: list(shape) >= 0 = []")
        .Stateful()
        .Shape(shapes::Scalar)
        .Compute(MultiDeviceFromString),
};

}  // namespace
}  // namespace thalweg
