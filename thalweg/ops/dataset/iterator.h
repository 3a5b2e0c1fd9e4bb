// SPDX-License-Identifier: Apache-2.0
// Iterators: the position of a program in the sequence of a dataset's elements.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "thalweg/base/mutex.h"
#include "thalweg/ops/dataset/dataset.h"

namespace thalweg {

// A started sequence with the context that its stages share. Thread-safe; callers get elements one at a time.
class RunningSequence {
 public:
  using MakeDataset = absl::AnyInvocable<absl::StatusOr<DatasetPtr>(Iteration&)>;
  // Creates the dataset with `make`, in the context of the new sequence, and starts it.
  static absl::StatusOr<std::shared_ptr<RunningSequence>> Start(KernelContext& c, MakeDataset make);
  static absl::StatusOr<std::shared_ptr<RunningSequence>> Start(KernelContext& c, DatasetPtr dataset);

  IteratorContext& context() { return context_; }
  NextElement Take(Cancellation& cancellation);
  // The same, but returns false instead of waiting.
  bool TryTake(Cancellation& cancellation, NextElement* element);

  // The number of elements taken so far, n; after the end, -1 - n.
  int64_t position();
  // Skips to `position`. REQUIRES: no element was taken.
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

  // Sets the sequence; replaces an earlier one.
  void Set(std::shared_ptr<RunningSequence> sequence);
  // Starts a sequence unless there is one.
  absl::Status StartOnce(absl::AnyInvocable<absl::StatusOr<std::shared_ptr<RunningSequence>>()> start);
  // FAILED_PRECONDITION, naming `what`, if the iterator is not initialized.
  absl::StatusOr<std::shared_ptr<RunningSequence>> Current(absl::string_view what) const;

  // Gets the next element: on this thread if that does not wait, otherwise on a thread of the iterator. `step`
  // must live until `done` has run.
  void Get(Step& step, absl::AnyInvocable<void(NextElement)> done);
  // Runs `work` on the iterator's thread if the sequence may wait, otherwise on this thread.
  void Run(Step& step, RunningSequence& sequence, absl::AnyInvocable<void()> work);

  std::string Describe() const override { return "an iterator"; }

 private:
  SerialThread& ThreadOf(Step& step);

  const std::vector<DType> types_;
  const std::vector<PartialShape> shapes_;
  Mutex start_mutex_;  // serializes StartOnce()
  mutable Mutex mutex_;
  std::shared_ptr<RunningSequence> sequence_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<SerialThread> thread_ ABSL_GUARDED_BY(mutex_);
};

// The iterator that input i names: a resource of the device, or an anonymous one, which lives as long as the
// step.
absl::StatusOr<std::shared_ptr<Iterator>> FindIterator(KernelContext& c, int i);

// The handle in input 0, as a string in output 0.
absl::Status HandleToString(KernelContext& c);
// The handle of an iterator on this device that the string in input 0 holds.
absl::StatusOr<ResourceHandle> HandleFromString(KernelContext& c);

// Sets the outputs to an element. Fails if it does not match the op's types and shapes.
absl::Status ShowElement(KernelContext& c, Element element);
// Shape function: the shapes of attribute output_shapes.
absl::Status ElementShapes(ShapeContext& c);

// Iterates over a dataset inside of one op. `work` runs on another thread if the sequence may wait.
void IterateAsync(KernelContext& c, DatasetPtr dataset,
                  absl::AnyInvocable<absl::Status(RunningSequence&, Cancellation&)> work, AsyncKernel::Done done);

}  // namespace thalweg
