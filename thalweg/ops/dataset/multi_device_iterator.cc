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
#include <deque>

#include "thalweg/base/mutex.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/dataset/dataset_schema.h"
#include "thalweg/ops/dataset/iterator.h"
#include "thalweg/ops/support/resource_kernel.h"

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

  // The number of this beginning.
  int64_t Start(std::shared_ptr<RunningSequence> sequence) {
    iterator_->Set(std::move(sequence));
    MutexLock lock(&mutex_);
    kept_.assign(shards_, {});
    next_ = 0;
    return ++beginning_;
  }

  // Hands out the next element of a shard: one that is kept, or the first that
  // comes for it. One caller at a time draws elements; the others wait in line.
  void Get(Step& step, int64_t shard, int64_t beginning, absl::AnyInvocable<void(NextElement)> done) {
    if (std::optional<NextElement> kept = TakeKept(shard, beginning)) return done(*std::move(kept));
    iterator_->Get(step, [this, &step, shard, beginning, done = std::move(done)](NextElement element) mutable {
      if (const absl::Status status = Keep(beginning, std::move(element)); !status.ok()) return done(status);
      Get(step, shard, beginning, std::move(done));
    });
  }

  std::string Describe() const override { return "an iterator for several devices"; }

 private:
  std::optional<NextElement> TakeKept(int64_t shard, int64_t beginning) {
    MutexLock lock(&mutex_);
    if (beginning_ == 0) return FailedPrecondition("MultiDeviceIterator has not been initialized.");
    if (beginning != beginning_) {
      return InvalidArgument("Invalid incarnation id. Provided: ", beginning, "; Expected: ", beginning_);
    }
    if (shard < 0 || shard >= shards_) return InvalidArgument("shard ", shard, " of ", shards_, " is asked for");
    std::deque<NextElement>& mine = kept_[shard];
    if (mine.empty()) return std::nullopt;
    NextElement element = std::move(mine.front());
    mine.pop_front();
    // The end stays the end.
    if (element.ok() && !element->has_value()) mine.push_back(std::nullopt);
    return element;
  }

  // How many elements one device may be ahead of another. Prefetched elements of a device do not count.
  static constexpr size_t kMostKept = 1024;

  absl::Status Keep(int64_t beginning, NextElement element) {
    MutexLock lock(&mutex_);
    if (beginning != beginning_) return absl::OkStatus();  // the iterator was restarted meanwhile
    if (element.ok() && !element->has_value()) {
      for (std::deque<NextElement>& kept : kept_) {
        if (kept.empty() || !kept.back().ok() || kept.back()->has_value()) kept.push_back(std::nullopt);
      }
      return absl::OkStatus();
    }
    const int64_t shard = next_++ % shards_;
    kept_[shard].push_back(std::move(element));
    if (kept_[shard].size() <= kMostKept) return absl::OkStatus();
    return ResourceExhausted("device ", shard, " of ", shards_, " has not taken ", kMostKept, " elements that are its");
  }

  const std::vector<DType> types_;
  const int64_t shards_;
  const std::shared_ptr<Iterator> iterator_;
  Mutex mutex_;
  int64_t beginning_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t next_ ABSL_GUARDED_BY(mutex_) = 0;  // the shard of the next element, modulo their number
  std::vector<std::deque<NextElement>> kept_ ABSL_GUARDED_BY(mutex_);
};

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
  ASSIGN_OR_RETURN(const std::shared_ptr<MultiDeviceIterator> iterator, FindResource<MultiDeviceIterator>(c, 1));
  ASSIGN_OR_RETURN(const int64_t limit, IntArgument(c, 2, "max_buffer_size"));
  if (limit <= 0) return InvalidArgument("max_buffer_size must be greater than zero, got ", limit);
  ASSIGN_OR_RETURN(std::shared_ptr<RunningSequence> sequence, RunningSequence::Start(c, std::move(dataset)));
  c.set_output(0, Tensor::Scalar(iterator->Start(std::move(sequence))));
  return absl::OkStatus();
}

class GetFromShardKernel final : public AsyncKernel {
 public:
  void ComputeAsync(KernelContext& c, Done done) override {
    absl::StatusOr<std::shared_ptr<MultiDeviceIterator>> found = FindResource<MultiDeviceIterator>(c, 0);
    if (!found.ok()) return done(found.status());
    const absl::StatusOr<int64_t> shard = IntArgument(c, 1, "shard_num");
    if (!shard.ok()) return done(shard.status());
    const absl::StatusOr<int64_t> beginning = IntArgument(c, 2, "incarnation_id");
    if (!beginning.ok()) return done(beginning.status());
    MultiDeviceIterator& iterator = **found;
    iterator.Get(c.step(), *shard, *beginning,
                 [&c, held = *std::move(found), done = std::move(done)](NextElement element) mutable {
                   if (!element.ok()) return done(element.status());
                   if (!element->has_value()) return done(OutOfRange("End of sequence"));
                   done(ShowElement(c, **std::move(element)));
                 });
  }
};

absl::Status MultiDeviceToString(KernelContext& c) {
  RETURN_IF_ERROR(FindResource<MultiDeviceIterator>(c, 0).status());
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
