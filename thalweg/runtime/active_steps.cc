// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/active_steps.h"

#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"

namespace thalweg {

absl::Status ActiveSteps::CheckOpen() const {
  MutexLock lock(&mutex_);
  if (closed_) return FailedPrecondition("Session has been closed.");
  return absl::OkStatus();
}

std::string ActiveSteps::DescribeWaits() const {
  std::vector<std::string> waits;
  for (const auto& step : active_) {
    std::string names = step->describe_waits ? step->describe_waits() : "";
    waits.push_back(names.empty() ? "a computation" : std::move(names));
  }
  return absl::StrJoin(waits, "; ");
}

void ActiveSteps::Close() {
  std::vector<std::shared_ptr<ActiveStep>> active;
  {
    MutexLock lock(&mutex_);
    closed_ = true;
    active.assign(active_.begin(), active_.end());
  }
  for (const auto& step : active) {
    step->cancellation.Cancel(Cancelled("Step was cancelled by an explicit call to `Session::Close()`."));
  }
  MutexLock lock(&mutex_);
  const absl::Time start = absl::Now();
  while (!active_.empty()) {
    if (step_ended_.WaitWithTimeout(&mutex_, options_.log_wait_after)) {
      LOG(INFO) << options_.closing << " has waited for " << absl::FormatDuration(absl::Now() - start) << " for "
                << active_.size() << " steps to end: " << DescribeWaits();
    }
  }
}

absl::Status StepScope::Begin(absl::Duration timeout, Cancellation* caller) {
  {
    MutexLock lock(&steps_.mutex_);
    if (steps_.closed_) return FailedPrecondition("Session has been closed.");
    steps_.active_.insert(step_);
  }
  if (timeout == absl::InfiniteDuration()) timeout = steps_.options_.default_timeout;
  if (timeout != absl::InfiniteDuration()) {
    alarm_ = steps_.options_.timer->Set(absl::Now() + timeout, [step = step_, timeout] {
      step->cancellation.Cancel(
          DeadlineExceeded("Timed out waiting for the step to finish: it had ", absl::FormatDuration(timeout)));
    });
  }
  caller_ = caller;
  if (caller_ == nullptr) return absl::OkStatus();
  caller_id_ = caller_->Register([step = step_](const absl::Status& why) { step->cancellation.Cancel(why); });
  return caller_id_.has_value() ? absl::OkStatus() : caller_->status();
}

// The scope may end inside of a callback of the caller's Cancellation, which
// therefore is not waited for; the callback owns what it uses.
StepScope::~StepScope() {
  if (caller_id_.has_value()) caller_->TryDeregister(*caller_id_);
  if (alarm_.has_value()) steps_.options_.timer->Unset(*alarm_);
  MutexLock lock(&steps_.mutex_);
  steps_.active_.erase(step_);
  if (steps_.closed_) steps_.step_ended_.SignalAll();
}

void StepScope::set_describe_waits(std::function<std::string()> describe) {
  MutexLock lock(&steps_.mutex_);
  step_->describe_waits = std::move(describe);
}

}  // namespace thalweg
