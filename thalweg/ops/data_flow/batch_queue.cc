// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/data_flow/batch_queue.h"

#include <algorithm>

#include "thalweg/base/status.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {

absl::StatusOr<Tensor> ConcatRows(const std::vector<Tensor>& parts, int64_t padding) {
  const Shape& first = parts[0].shape();
  int64_t rows = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Shape& shape = parts[i].shape();
    if (parts[i].dtype() != parts[0].dtype()) {
      return InvalidArgument("Types of inputs should match: ", parts[0].dtype(), " vs. ", parts[i].dtype());
    }
    if (shape.rank() != first.rank()) {
      return InvalidArgument("Ranks of all input tensors should match: shape[0] = ", first, " vs. shape[", i,
                             "] = ", shape);
    }
    if (!std::equal(shape.dims().begin() + 1, shape.dims().end(), first.dims().begin() + 1)) {
      return InvalidArgument("Dimensions of inputs should match: shape[0] = ", first, " vs. shape[", i, "] = ", shape);
    }
    rows += shape.dim(0);
  }
  const Tensor* source = nullptr;  // the rows that pad the batch
  for (const Tensor& part : parts) {
    if (source == nullptr && part.dim(0) > 0) source = &part;
  }
  if (source == nullptr) padding = 0;
  if (parts.size() == 1 && padding == 0) return parts[0];
  Dims dims(first.dims().begin(), first.dims().end());
  dims[0] = rows + padding;
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  ASSIGN_OR_RETURN(Tensor joined, Tensor::Allocate(parts[0].dtype(), shape));
  RETURN_IF_ERROR(DispatchBySize(joined.dtype(), [&]<typename T>() {
    T* to = MutableElementData<T>(&joined);
    for (const Tensor& part : parts) {
      CopyElements(ElementData<T>(part), part.num_elements(), to);
      to += part.num_elements();
    }
    const int64_t width = source == nullptr ? 0 : source->num_elements() / source->dim(0);
    for (int64_t i = 0; i < padding; ++i, to += width) CopyElements(ElementData<T>(*source), width, to);
    return absl::OkStatus();
  }));
  return joined;
}

BatchQueue::BatchQueue(Options options, ThreadPool* pool) : options_(std::move(options)) {
  for (int64_t i = 0; i < options_.threads; ++i) workers_.push_back({std::make_unique<SerialThread>(pool)});
}

absl::Status BatchQueue::Insert(const BatchTaskPtr& task, const RunBatch& run) {
  if (open_ != nullptr && open_->rows + task->rows > options_.max_rows) {
    open_->closed = true;
    open_ = nullptr;
  }
  if (open_ == nullptr) {
    if (static_cast<int64_t>(batches_.size()) >= options_.max_batches) {
      return Unavailable("The batch scheduling queue to which this task was submitted is full; current size: ",
                         batches_.size(), "; max_enqueued_batches: ", options_.max_batches);
    }
    open_ = std::make_shared<Batch>();
    open_->deadline = absl::Now() + options_.timeout;
    batches_.push_back(open_);
    Worker& worker = *std::min_element(workers_.begin(), workers_.end(),
                                       [](const Worker& a, const Worker& b) { return a.batches < b.batches; });
    ++worker.batches;
    // The destructor waits for the thread. Callers that wait for the batch keep the queue alive.
    worker.thread->Schedule([this, batch = open_, &worker] { Serve(batch, worker); });
  }
  open_->tasks.push_back(task);
  open_->rows += task->rows;
  open_->run = run;
  if (open_->rows == options_.max_rows) {
    open_->closed = true;
    open_ = nullptr;
  }
  return absl::OkStatus();
}

void BatchQueue::Add(const std::vector<BatchTaskPtr>& tasks, const RunBatch& run, const WaitingCaller& caller,
                     WaitList::EndFn end) {
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    for (const BatchTaskPtr& task : tasks) {
      if (status = Insert(task, run); !status.ok()) break;
    }
    changed_.SignalAll();
  }
  if (!status.ok()) {
    Abandon(tasks);
    return end(status);
  }
  const auto finished = [tasks](absl::Status* result) {
    for (const BatchTaskPtr& task : tasks) {
      if (!task->finished) return false;
      if (result->ok()) *result = task->status;
    }
    return true;
  };
  waiting_.Start(
      shared_from_this(), &mutex_, "Batch", caller, finished,
      [self = shared_from_this(), tasks, end = std::move(end)](const absl::Status& result) mutable {
        if (!result.ok()) self->Abandon(tasks);
        end(result);
      },
      [this](WaitList::Ended* ended) ABSL_NO_THREAD_SAFETY_ANALYSIS { waiting_.Flush(ended); });
}

// A batch for which nobody waits any more is neither gathered nor run to its end.
void BatchQueue::Abandon(const std::vector<BatchTaskPtr>& tasks) {
  std::vector<std::shared_ptr<Batch>> empty;
  {
    MutexLock lock(&mutex_);
    for (const BatchTaskPtr& task : tasks) task->abandoned = true;
    for (const std::shared_ptr<Batch>& batch : batches_) {
      const bool any = std::any_of(batch->tasks.begin(), batch->tasks.end(),
                                   [](const BatchTaskPtr& task) { return !task->abandoned; });
      if (!any) empty.push_back(batch);
    }
    changed_.SignalAll();
  }
  for (const std::shared_ptr<Batch>& batch : empty) batch->cancellation.Cancel(absl::CancelledError("no step waits"));
}

void BatchQueue::Serve(const std::shared_ptr<Batch>& batch, Worker& worker) {
  {
    MutexLock lock(&mutex_);
    while (!batch->closed && !batch->cancellation.cancelled() && absl::Now() < batch->deadline) {
      changed_.WaitWithDeadline(&mutex_, batch->deadline);
    }
    batch->closed = true;
    if (open_ == batch) open_ = nullptr;
    std::erase_if(batch->tasks, [](const BatchTaskPtr& task) { return task->abandoned; });
  }
  // Nobody adds tasks any more.
  const absl::Status status = Run(*batch);
  WaitList::Ended ended;
  {
    MutexLock lock(&mutex_);
    std::erase(batches_, batch);
    --worker.batches;
    for (const BatchTaskPtr& task : batch->tasks) {
      task->status = status;
      task->finished = true;
    }
    waiting_.Flush(&ended);
  }
  WaitList::End(std::move(ended));
}

absl::Status BatchQueue::Run(Batch& batch) {
  if (batch.tasks.empty()) return absl::OkStatus();
  int64_t rows = 0;
  for (const BatchTaskPtr& task : batch.tasks) {
    rows += task->rows;
    if (task->inputs.size() != batch.tasks[0]->inputs.size()) {
      return InvalidArgument("Batching inputs must have equal number of edges");
    }
  }
  const auto allowed = std::lower_bound(options_.allowed_rows.begin(), options_.allowed_rows.end(), rows);
  const int64_t padding = allowed == options_.allowed_rows.end() ? 0 : *allowed - rows;
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < batch.tasks[0]->inputs.size(); ++i) {
    std::vector<Tensor> parts;
    for (const BatchTaskPtr& task : batch.tasks) parts.push_back(task->inputs[i]);
    ASSIGN_OR_RETURN(Tensor joined, ConcatRows(parts, padding));
    inputs.push_back(std::move(joined));
  }
  return batch.run(batch.tasks, std::move(inputs), batch.cancellation);
}

}  // namespace thalweg
