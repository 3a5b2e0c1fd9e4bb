// SPDX-License-Identifier: Apache-2.0
// The token queue of TensorFlow's SyncReplicasOptimizer in Python.
//
// Each token permits one gradient for the step that it names. A worker applies its gradient,
// then waits for a token, which names the step of its next gradient. The chief enqueues one
// token per replica after each update. A worker that leaves takes a token with it, so that the
// next update waits forever for a gradient; TensorFlow's jobs hang in this case. This queue
// records which task holds which token. The token of a worker that leaves goes to the remaining
// workers. When no task is left that enqueues tokens, waiting workers get OUT_OF_RANGE, as at
// the end of any queue.
//
// A worker that ended with an error may be restarted and keeps its token. If all other workers
// wait for tokens meanwhile, nobody but that worker can end their waits, which fail after a
// limit.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "thalweg/kernel/task_observer.h"
#include "thalweg/ops/data_flow/queue.h"

namespace thalweg {

// Thread-safe.
class TokenQueue final : public Queue, public TaskObserver {
 public:
  // True for the queue that SyncReplicasOptimizer creates.
  static bool Is(const QueueConfig& options);
  // REQUIRES: Is(options)
  static absl::StatusOr<std::shared_ptr<Queue>> Make(QueueConfig options);

  bool wants_tasks() const override { return true; }
  void TaskLeft(const std::string& task) override;
  void TasksFailed(const std::map<std::string, TaskFailure>& failed, absl::Duration limit) override;

 private:
  using Queue::Queue;
  void HasPut(const std::string& task) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HasTaken(const std::string& task, const Tuple& token) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The token that the task holds and will not use.
  std::optional<Tuple> TokenOf(const std::string& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Since when all workers that have not failed wait for tokens. InfiniteFuture: some do not.
  absl::Time AllWaitSince(const std::map<std::string, TaskFailure>& failed) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A token that names no particular step, in place of a worker that never arrived: the first
  // gradient of a worker needs no token.
  Tuple TokenOfAnyStep() const;

  bool has_had_tokens_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;                              // the last source has left
  std::set<std::string> sources_ ABSL_GUARDED_BY(mutex_);                  // tasks that enqueue tokens
  std::map<std::string, Tuple> holders_ ABSL_GUARDED_BY(mutex_);           // the last token that each task took
  absl::Time next_report_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // when to log a wait for failed tasks again
  std::atomic<int64_t> returned_ = 0;
};

}  // namespace thalweg
