// TokenQueue: the queue of TensorFlow's SyncReplicasOptimizer in Python.
//
// Each token allows one gradient of the step that it names. A worker applies its
// gradient, then waits for a token, whose step its next gradient is for. The chief
// puts in one token per replica whenever enough gradients were there for an
// update. A worker that leaves takes a token with it, so that an update may lack
// a gradient for ever; TensorFlow's jobs hang then. This queue knows who has which
// token: that of a worker that leaves goes to those that are left, and when
// nobody is left who puts tokens in, those that wait end with OUT_OF_RANGE, as at
// the end of any queue.
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
  // True for the queue that SyncReplicasOptimizer makes.
  static bool Is(const QueueConfig& options);
  // REQUIRES: Is(options)
  static absl::StatusOr<std::shared_ptr<Queue>> Make(QueueConfig options);

  bool wants_tasks() const override { return true; }
  void TaskLeft(const std::string& task) override;

 private:
  using Queue::Queue;
  void HasPut(const std::string& task) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HasTaken(const std::string& task, const Tuple& token) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The token that the task has, which it will not use.
  std::optional<Tuple> TokenOf(const std::string& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A token of no particular step, for the first gradient of a worker that never
  // came: the first needs none.
  Tuple TokenOfAnyStep() const;

  bool has_had_tokens_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;                     // the last source has left
  std::set<std::string> sources_ ABSL_GUARDED_BY(mutex_);         // tasks that put tokens in
  std::map<std::string, Tuple> holders_ ABSL_GUARDED_BY(mutex_);  // the last token that each task took
  std::atomic<int64_t> returned_ = 0;
};

}  // namespace thalweg
