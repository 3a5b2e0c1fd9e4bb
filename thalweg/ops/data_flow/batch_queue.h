// SPDX-License-Identifier: Apache-2.0
// Gathers the rows of concurrent steps into batches.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/resource.h"
#include "thalweg/ops/dataset/iterator_context.h"
#include "thalweg/ops/support/wait_list.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Concatenates tensors along the first dimension, then repeats the first row `padding` times. INVALID_ARGUMENT if
// the other dimensions differ.
absl::StatusOr<Tensor> ConcatRows(const std::vector<Tensor>& parts, int64_t padding);

// The rows of one step, and the results that the batch gives it.
struct BatchTask {
  int64_t id = 0;  // unique
  std::vector<Tensor> inputs;
  int64_t rows = 0;
  std::vector<Tensor> outputs;
  // Guarded by the queue's lock.
  bool finished = false;
  absl::Status status;     // how the task has finished
  bool abandoned = false;  // its step was cancelled
};
using BatchTaskPtr = std::shared_ptr<BatchTask>;

// Computes the outputs of all tasks of a batch. `inputs` are the tasks' rows together, padded to an allowed size.
using RunBatch = std::function<absl::Status(const std::vector<BatchTaskPtr>& tasks, std::vector<Tensor> inputs,
                                            Cancellation& cancellation)>;

// A batch is closed when it is full, or when its first task has waited for the timeout and a thread is free.
// Thread-safe.
class BatchQueue final : public Resource, public std::enable_shared_from_this<BatchQueue> {
 public:
  struct Options {
    int64_t threads = 1;
    int64_t max_rows = 1;  // in a batch
    int64_t max_batches = 10;
    absl::Duration timeout;
    std::vector<int64_t> allowed_rows;  // in ascending order; a batch is padded to the next of them
  };
  // `pool` lives as long as the device.
  BatchQueue(Options options, ThreadPool* pool);

  // Adds tasks, none of which has more rows than a batch. `run` computes the batch if one of them is its last task.
  // `end` runs when all of them are finished, or when the step is cancelled. UNAVAILABLE if there are too many
  // batches.
  void Add(const std::vector<BatchTaskPtr>& tasks, const RunBatch& run, const WaitingCaller& caller,
           WaitList::EndFn end);

  std::string Describe() const override { return "a queue of batches"; }

 private:
  struct Batch {
    std::vector<BatchTaskPtr> tasks;
    int64_t rows = 0;
    absl::Time deadline;
    bool closed = false;
    RunBatch run;  // given with the last task
    Cancellation cancellation;
  };
  struct Worker {
    std::unique_ptr<SerialThread> thread;
    int batches = 0;  // scheduled or running
  };

  absl::Status Insert(const BatchTaskPtr& task, const RunBatch& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Serve(const std::shared_ptr<Batch>& batch, Worker& worker);
  absl::Status Run(Batch& batch);
  void Abandon(const std::vector<BatchTaskPtr>& tasks);

  const Options options_;
  Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<Batch> open_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Batch>> batches_ ABSL_GUARDED_BY(mutex_);  // open, waiting or running
  WaitList waiting_{/*in_order=*/false};                                 // guarded by mutex_
  std::vector<Worker> workers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
