// SPDX-License-Identifier: Apache-2.0
// The running steps of a task. Allows to cancel all of them, and logs what long steps wait
// for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread.h"

namespace thalweg {

class WorkerStep;

// Thread-safe. A background thread logs what a step waits for after `log_wait_after`, and
// again each time the duration has doubled. Steps that only wait for room in a full queue,
// like those of queue runners, are logged with --v=1.
class RunningSteps {
 public:
  RunningSteps(std::string task, absl::Duration log_wait_after);
  ~RunningSteps();  // REQUIRES: no step is left
  RunningSteps(const RunningSteps&) = delete;
  RunningSteps& operator=(const RunningSteps&) = delete;

  // Adds a step until Remove(). After CancelAll(), fails with its reason.
  absl::Status Add(WorkerStep* step);
  void Remove(WorkerStep* step);

  // Cancels the steps that run for masters in other tasks.
  void CancelForOthers(const absl::Status& why);
  // Cancels all current and future steps. The first reason is kept.
  void CancelAll(const absl::Status& why);
  // The steps that run, with what each waits for, if it waits.
  std::vector<std::string> Describe();
  // Waits until all steps have ended. REQUIRES: CancelAll() was called.
  void WaitForEnds();

 private:
  void ReportWaits();

  const std::string task_;
  const absl::Duration log_wait_after_;
  Mutex mutex_;
  CondVar changed_;  // the last step has ended, or closing_ was set
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status cancelled_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<WorkerStep*, absl::Time> running_ ABSL_GUARDED_BY(mutex_);  // with the time of its start
  std::unique_ptr<Thread> watcher_;
};

}  // namespace thalweg
