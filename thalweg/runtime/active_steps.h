// SPDX-License-Identifier: Apache-2.0
// The running steps of a session. A step can be ended early by its deadline, by its
// caller, or by closing the session.
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
  std::string closing = "Session::Close";                     // the name of Close() in the log
  Timer* timer = nullptr;                                     // borrowed; runs the deadlines
  absl::Duration default_timeout = absl::InfiniteDuration();  // for steps that set none
  absl::Duration log_wait_after = absl::Seconds(10);          // how long Close() waits before it logs, repeatedly
};

// Thread-safe. Must outlive its scopes.
class ActiveSteps {
 public:
  explicit ActiveSteps(ActiveStepsOptions options) : options_(std::move(options)) {}

  absl::Status CheckOpen() const;  // FAILED_PRECONDITION after Close()
  bool empty() const {
    MutexLock lock(&mutex_);
    return active_.empty();
  }
  // Cancels the running steps and waits for their end. No step can begin afterwards.
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
  // Shared with the scopes, because a step may end while Close() cancels it.
  absl::flat_hash_set<std::shared_ptr<ActiveStep>> active_ ABSL_GUARDED_BY(mutex_);
};

// Registers one step, or its preparation, with ActiveSteps while it runs.
class StepScope {
 public:
  explicit StepScope(ActiveSteps& steps) : steps_(steps) {}
  ~StepScope();
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;

  // Returns FAILED_PRECONDITION if the session is closed, and the reason of `caller` if
  // that is already cancelled. `caller` may be nullptr. REQUIRES: called once.
  absl::Status Begin(absl::Duration timeout, Cancellation* caller);

  Cancellation& cancellation() { return step_->cancellation; }
  // For callers that may cancel the step after its end.
  std::shared_ptr<Cancellation> shared_cancellation() { return {step_, &step_->cancellation}; }

  // Sets a function that describes what the step waits for; Close() logs it. It is
  // called under a lock until it is replaced. nullptr if the step does not wait.
  void set_describe_waits(std::function<std::string()> describe);

 private:
  ActiveSteps& steps_;
  const std::shared_ptr<ActiveSteps::ActiveStep> step_ = std::make_shared<ActiveSteps::ActiveStep>();
  Cancellation* caller_ = nullptr;
  std::optional<Cancellation::CallbackId> caller_id_;
  std::optional<Timer::AlarmId> alarm_;
};

}  // namespace thalweg
