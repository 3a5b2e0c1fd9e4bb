// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/dataset/iterator.h"

#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/ops/support/resource_kernel.h"

namespace thalweg {

absl::StatusOr<std::shared_ptr<RunningSequence>> RunningSequence::Start(KernelContext& c, MakeDataset make) {
  std::shared_ptr<RunningSequence> sequence(new RunningSequence(c.device(), c.step().pool));
  Iteration it{sequence->context_, *c.step().cancellation};
  ASSIGN_OR_RETURN(sequence->dataset_, make(it));
  ASSIGN_OR_RETURN(Next next, sequence->dataset_->Iterate(it));
  MutexLock lock(&sequence->mutex_);
  sequence->next_ = std::move(next);
  return sequence;
}

absl::StatusOr<std::shared_ptr<RunningSequence>> RunningSequence::Start(KernelContext& c, DatasetPtr dataset) {
  return Start(c, [&](Iteration&) { return dataset; });
}

NextElement RunningSequence::TakeLocked(Cancellation& cancellation) {
  if (ended_) return std::nullopt;
  Iteration it{context_, cancellation};
  NextElement element = next_(it);
  if (!element.ok()) return element;
  ended_ = !element->has_value();
  if (!ended_) ++taken_;
  return element;
}

NextElement RunningSequence::Take(Cancellation& cancellation) {
  MutexLock lock(&mutex_);
  return TakeLocked(cancellation);
}

bool RunningSequence::TryTake(Cancellation& cancellation, NextElement* element) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (!mutex_.TryLock()) return false;
  const bool now = !context_.may_wait() || ended_ || next_.ready();
  if (now) *element = TakeLocked(cancellation);
  mutex_.Unlock();
  return now;
}

int64_t RunningSequence::position() {
  MutexLock lock(&mutex_);
  return ended_ ? -1 - taken_ : taken_;
}

absl::Status RunningSequence::Skip(int64_t position, Cancellation& cancellation) {
  MutexLock lock(&mutex_);
  if (position < 0) {
    ended_ = true;
    taken_ = -1 - position;
    return absl::OkStatus();
  }
  while (taken_ < position) {
    ASSIGN_OR_RETURN(const std::optional<Element> skipped, TakeLocked(cancellation));
    if (!skipped) return InvalidArgument("the dataset has ", taken_, " elements, the iterator was at ", position);
    RETURN_IF_ERROR(cancellation.status());
  }
  return absl::OkStatus();
}

void Iterator::Set(std::shared_ptr<RunningSequence> sequence) {
  MutexLock lock(&mutex_);
  sequence_.swap(sequence);  // the old one ends outside of the lock
}

absl::Status Iterator::StartOnce(absl::AnyInvocable<absl::StatusOr<std::shared_ptr<RunningSequence>>()> start) {
  MutexLock lock(&start_mutex_);
  if (Current("").ok()) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::shared_ptr<RunningSequence> sequence, start());
  Set(std::move(sequence));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<RunningSequence>> Iterator::Current(absl::string_view what) const {
  MutexLock lock(&mutex_);
  if (sequence_ != nullptr) return sequence_;
  return FailedPrecondition(
      what,
      "() failed because the iterator has not been initialized. Ensure that you have run the initializer operation for "
      "this iterator before it is used.");
}

SerialThread& Iterator::ThreadOf(Step& step) {
  MutexLock lock(&mutex_);
  if (thread_ == nullptr) thread_ = std::make_unique<SerialThread>(step.pool);
  return *thread_;
}

void Iterator::Get(Step& step, absl::AnyInvocable<void(NextElement)> done) {
  absl::StatusOr<std::shared_ptr<RunningSequence>> sequence = Current("GetNext");
  if (!sequence.ok()) return done(sequence.status());
  NextElement element = std::nullopt;
  if ((*sequence)->TryTake(*step.cancellation, &element)) return done(std::move(element));
  ThreadOf(step).Schedule([&step, sequence = *std::move(sequence), done = std::move(done)]() mutable {
    done(sequence->Take(*step.cancellation));
  });
}

void Iterator::Run(Step& step, RunningSequence& sequence, absl::AnyInvocable<void()> work) {
  if (!sequence.context().may_wait()) return work();
  ThreadOf(step).Schedule(std::move(work));
}

absl::StatusOr<std::shared_ptr<Iterator>> FindIterator(KernelContext& c, int i) {
  if (absl::StatusOr<std::shared_ptr<Iterator>> anonymous = FindStepResource<Iterator>(c, i); anonymous.ok()) {
    return anonymous;
  }
  return FindResource<Iterator>(c, i);
}

absl::Status HandleToString(KernelContext& c) {
  tensorflow::ResourceHandleProto proto;
  c.input(0).scalar<ResourceHandle>().ToProto(&proto);
  c.set_output(0, Tensor::Scalar(proto.SerializeAsString()));
  return absl::OkStatus();
}

absl::StatusOr<ResourceHandle> HandleFromString(KernelContext& c) {
  ASSIGN_OR_RETURN(const std::string text, StringArgument(c, 0, "string_handle"));
  tensorflow::ResourceHandleProto proto;
  if (!proto.ParseFromString(text)) return InvalidArgument("Could not parse string_handle as a valid ResourceHandle");
  ResourceHandle handle = ResourceHandle::FromProto(proto);
  if (handle.device != c.device().name()) {
    return InvalidArgument("Attempted create an iterator on device \"", c.device().name(),
                           "\" from handle defined on device \"", handle.device, "\"");
  }
  return handle;
}

absl::Status ShowElement(KernelContext& c, Element element) {
  ASSIGN_OR_RETURN(const std::vector<PartialShape> shapes,
                   GetAttr<std::vector<PartialShape>>(c.node().def(), "output_shapes"));
  if (static_cast<int>(element.size()) != c.num_outputs()) {
    return InvalidArgument("Number of components does not match: expected ", c.num_outputs(), " types but got ",
                           element.size(), ".");
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    if (element[i].dtype() != c.output_type(i)) {
      return InvalidArgument("Data type mismatch at component ", i, ": expected ", c.output_type(i), " but got ",
                             element[i].dtype(), ".");
    }
    if (i < static_cast<int>(shapes.size()) && !shapes[i].Accepts(element[i].shape())) {
      return InvalidArgument("Incompatible shapes at component ", i, ": expected ", shapes[i], " but got ",
                             element[i].shape(), ".");
    }
    c.set_output(i, std::move(element[i]));
  }
  return absl::OkStatus();
}

absl::Status ElementShapes(ShapeContext& c) {
  ASSIGN_OR_RETURN(const std::vector<PartialShape> shapes, c.Attr<std::vector<PartialShape>>("output_shapes"));
  if (static_cast<int>(shapes.size()) != c.num_outputs()) {
    return InvalidArgument("`output_shapes` must be the same length as `output_types` (", shapes.size(), " vs. ",
                           c.num_outputs(), ")");
  }
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, shapes[i]);
  return absl::OkStatus();
}

void IterateAsync(KernelContext& c, DatasetPtr dataset,
                  absl::AnyInvocable<absl::Status(RunningSequence&, Cancellation&)> work, AsyncKernel::Done done) {
  absl::StatusOr<std::shared_ptr<RunningSequence>> started = RunningSequence::Start(c, std::move(dataset));
  if (!started.ok()) return done(started.status());
  std::shared_ptr<RunningSequence> sequence = *std::move(started);
  Cancellation& cancellation = *c.step().cancellation;
  if (!sequence->context().may_wait()) return done(work(*sequence, cancellation));
  // The closure owns the thread that runs it.
  auto thread = std::make_shared<SerialThread>(c.step().pool);
  SerialThread& runner = *thread;
  runner.Schedule([thread = std::move(thread), sequence = std::move(sequence), work = std::move(work),
                   done = std::move(done), &cancellation]() mutable {
    const absl::Status status = work(*sequence, cancellation);
    sequence.reset();  // ends its threads before the step ends
    done(status);
  });
}

}  // namespace thalweg
