// The steps of a session that run now, and what ends one of them early: its
// deadline, its caller, and the end of the session.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/timer.h"

namespace thalweg {

struct ActiveStepsOptions {
  std::string closing = "Session::Close";                     // what Close() is, for the log
  Timer* timer = nullptr;                                     // borrowed: deadlines
  absl::Duration default_timeout = absl::InfiniteDuration();  // for steps that set none
  absl::Duration report_after = absl::Seconds(10);            // a Close() that waits so long is logged, repeatedly
};

// Thread-safe. Must outlive its scopes.
class ActiveSteps {
 public:
  explicit ActiveSteps(ActiveStepsOptions options) : options_(std::move(options)) {}

  absl::Status CheckOpen() const;  // FAILED_PRECONDITION once it is closed
  bool empty() const {
    MutexLock lock(&mutex_);
    return active_.empty();
  }
  // Cancels the steps that run and waits for their end. No step begins afterwards.
  void Close();

 private:
  friend class StepScope;
  struct ActiveStep {
    Cancellation cancellation;
    std::function<std::string()> describe_waits;  // guarded by mutex_; may be empty
  };
  std::string DescribeWaits() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ActiveStepsOptions options_;
  mutable Mutex mutex_;
  CondVar step_ended_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // Shared with scopes: a step may end while Close() cancels it.
  absl::flat_hash_set<std::shared_ptr<ActiveStep>> active_ ABSL_GUARDED_BY(mutex_);
};

// One step, or its preparation, from its beginning to its end.
class StepScope {
 public:
  explicit StepScope(ActiveSteps& steps) : steps_(steps) {}
  ~StepScope();
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;

  // FAILED_PRECONDITION if the session is closed; the caller's reason if it has
  // cancelled already. `caller` may be nullptr. REQUIRES: called once.
  absl::Status Begin(absl::Duration timeout, Cancellation* caller);

  Cancellation& cancellation() { return step_->cancellation; }
  // For those that may still cancel the step when it has ended.
  std::shared_ptr<Cancellation> shared_cancellation() { return {step_, &step_->cancellation}; }

  // What the step waits for, if Close() wants to tell; called under a lock, any
  // time until it is replaced. nullptr: the step computes.
  void set_describe_waits(std::function<std::string()> describe);

 private:
  ActiveSteps& steps_;
  const std::shared_ptr<ActiveSteps::ActiveStep> step_ = std::make_shared<ActiveSteps::ActiveStep>();
  Cancellation* caller_ = nullptr;
  std::optional<Cancellation::CallbackId> caller_id_;
  std::optional<Timer::AlarmId> alarm_;
};

}  // namespace thalweg
