// Iterators: where a program stands in the sequence of a dataset's elements.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "thalweg/base/mutex.h"
#include "thalweg/ops/dataset/dataset.h"

namespace thalweg {

// A sequence that has begun, and all that its parts share. Thread-safe; elements
// go to one caller at a time.
class RunningSequence {
 public:
  using MakeDataset = absl::AnyInvocable<absl::StatusOr<DatasetPtr>(Iteration&)>;
  // The dataset is made first, with the sequence's own context.
  static absl::StatusOr<std::shared_ptr<RunningSequence>> Start(KernelContext& c, MakeDataset make);
  static absl::StatusOr<std::shared_ptr<RunningSequence>> Start(KernelContext& c, DatasetPtr dataset);

  IteratorContext& context() { return context_; }
  NextElement Take(Cancellation& cancellation);
  // The same if that does not wait; false if it might.
  bool TryTake(Cancellation& cancellation, NextElement* element);

  // The number of elements that were taken; after the end, -1 minus that.
  int64_t position();
  // Goes to `position` from the beginning, which this must be.
  absl::Status Skip(int64_t position, Cancellation& cancellation);
  const DatasetPtr& dataset() const { return dataset_; }

 private:
  RunningSequence(Device& device, ThreadPool* pool) : context_(device, pool) {}
  NextElement TakeLocked(Cancellation& cancellation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  IteratorContext context_;
  DatasetPtr dataset_;
  Mutex mutex_;
  Next next_ ABSL_GUARDED_BY(mutex_);
  int64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

// Thread-safe.
class Iterator final : public Resource {
 public:
  static constexpr char kTypeName[] = "N10tensorflow4data16IteratorResourceE";

  Iterator(std::vector<DType> types, std::vector<PartialShape> shapes)
      : types_(std::move(types)), shapes_(std::move(shapes)) {}

  const std::vector<DType>& types() const { return types_; }
  const std::vector<PartialShape>& shapes() const { return shapes_; }

  // Begins, or begins anew.
  void Set(std::shared_ptr<RunningSequence> sequence);
  // Begins unless it has.
  absl::Status StartOnce(absl::AnyInvocable<absl::StatusOr<std::shared_ptr<RunningSequence>>()> start);
  // FAILED_PRECONDITION, which names `what` was asked for, if it has not begun.
  absl::StatusOr<std::shared_ptr<RunningSequence>> Current(absl::string_view what) const;

  // The next element: on this thread if it can be had without waiting, else on
  // one of the iterator's. `step` lives until then.
  void Get(Step& step, absl::AnyInvocable<void(NextElement)> done);
  // Runs `work` on the iterator's thread if the sequence may wait, else on this.
  void Run(Step& step, RunningSequence& sequence, absl::AnyInvocable<void()> work);

  std::string Describe() const override { return "an iterator"; }

 private:
  SerialThread& ThreadOf(Step& step);

  const std::vector<DType> types_;
  const std::vector<PartialShape> shapes_;
  Mutex start_mutex_;  // one begins at a time
  mutable Mutex mutex_;
  std::shared_ptr<RunningSequence> sequence_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<SerialThread> thread_ ABSL_GUARDED_BY(mutex_);
};

// The iterator that input i names: one of the device, or an anonymous one, which
// lives as long as the step.
absl::StatusOr<std::shared_ptr<Iterator>> FindIterator(KernelContext& c, int i);

// The handle in input 0, as a string in output 0.
absl::Status HandleToString(KernelContext& c);
// The handle of an iterator on this device that the string in input 0 holds.
absl::StatusOr<ResourceHandle> HandleFromString(KernelContext& c);

// Shows an element, if it is what the op promises.
absl::Status ShowElement(KernelContext& c, Element element);
// The shapes that the op promises.
absl::Status ElementShapes(ShapeContext& c);

// Goes through a dataset inside of one op. `work` runs on another thread if the
// elements may have to wait for something.
void IterateAsync(KernelContext& c, DatasetPtr dataset,
                  absl::AnyInvocable<absl::Status(RunningSequence&, Cancellation&)> work, AsyncKernel::Done done);

}  // namespace thalweg
