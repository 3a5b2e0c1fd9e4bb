// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/worker/running_steps.h"

#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "thalweg/base/log_format.h"
#include "thalweg/base/logging.h"
#include "thalweg/cluster/worker/worker_step.h"

namespace thalweg {

RunningSteps::RunningSteps(std::string task, absl::Duration log_wait_after)
    : task_(std::move(task)), log_wait_after_(log_wait_after) {
  watcher_ = std::make_unique<Thread>("waits", [this] { ReportWaits(); });
}

RunningSteps::~RunningSteps() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.SignalAll();
  }
  watcher_.reset();
}

absl::Status RunningSteps::Add(WorkerStep* step) {
  MutexLock lock(&mutex_);
  if (!cancelled_.ok()) return cancelled_;
  running_.emplace(step, absl::Now());
  return absl::OkStatus();
}

void RunningSteps::Remove(WorkerStep* step) {
  MutexLock lock(&mutex_);
  running_.erase(step);
  if (running_.empty() && !cancelled_.ok()) changed_.SignalAll();
}

void RunningSteps::CancelForOthers(const absl::Status& why) {
  std::vector<std::shared_ptr<WorkerStep>> running;
  {
    MutexLock lock(&mutex_);
    for (const auto& [step, since] : running_) {
      if (step->has_remote_master()) running.push_back(step->shared_from_this());
    }
  }
  for (const auto& step : running) step->Cancel(why);
}

void RunningSteps::CancelAll(const absl::Status& why) {
  std::vector<std::shared_ptr<WorkerStep>> running;
  {
    MutexLock lock(&mutex_);
    if (cancelled_.ok()) cancelled_ = why;
    for (const auto& [step, since] : running_) running.push_back(step->shared_from_this());
  }
  for (const auto& step : running) step->Cancel(why);
}

std::vector<std::string> RunningSteps::Describe() {
  std::vector<std::string> steps;
  MutexLock lock(&mutex_);
  for (const auto& [step, since] : running_) steps.push_back(step->Describe());
  return steps;
}

void RunningSteps::WaitForEnds() {
  MutexLock lock(&mutex_);
  while (!running_.empty()) {
    if (changed_.WaitWithTimeout(&mutex_, log_wait_after_)) {
      LOG(INFO) << task_ << " is shutting down and waits for " << running_.size() << " steps to end";
      for (const auto& [step, since] : running_) {
        const LogStepScope names_step(step->id(), step->session_handle());
        LOG(INFO) << task_ << ": " << step->Describe();
      }
    }
  }
}

void RunningSteps::ReportWaits() {
  absl::flat_hash_map<int64_t, absl::Duration> reported;
  MutexLock lock(&mutex_);
  while (!closing_) {
    changed_.WaitWithTimeout(&mutex_, log_wait_after_ / 2);
    const absl::Time now = absl::Now();
    absl::flat_hash_map<int64_t, absl::Duration> seen;
    for (const auto& [step, since] : running_) {
      if (now - since < log_wait_after_ || !step->Waits()) continue;
      absl::Duration& last = seen[step->id()];
      if (const auto it = reported.find(step->id()); it != reported.end()) last = it->second;
      if (now - since < 2 * last) continue;
      last = now - since;
      const LogStepScope names_step(step->id(), step->session_handle());
      if (step->WaitsForRoom()) {
        VLOG(1) << task_ << ": " << step->Describe();
      } else {
        LOG(INFO) << task_ << ": " << step->Describe();
      }
    }
    reported = std::move(seen);
  }
}

}  // namespace thalweg
