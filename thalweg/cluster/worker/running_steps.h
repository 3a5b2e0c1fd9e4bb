// The steps that run in a task, so that all of them can be ended, and long ones
// explained.
#pragma once

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread.h"

namespace thalweg {

class WorkerStep;

// Thread-safe. A thread of its own logs what steps wait for once they have waited
// for `report_after`, and again each time that has doubled. Steps that only wait
// for room in a queue, as those of queue runners do, are logged with --v=1.
class RunningSteps {
 public:
  RunningSteps(std::string task, absl::Duration report_after);
  ~RunningSteps();  // REQUIRES: none is left
  RunningSteps(const RunningSteps&) = delete;
  RunningSteps& operator=(const RunningSteps&) = delete;

  // The step is here until Remove(). Fails with the reason of CancelAll() after that.
  absl::Status Add(WorkerStep* step);
  void Remove(WorkerStep* step);

  // Cancels the steps that run for masters in other tasks.
  void CancelForOthers(const absl::Status& why);
  // Cancels every step, for good. The first reason stays.
  void CancelAll(const absl::Status& why);
  // Until there is none. REQUIRES: CancelAll() was called.
  void WaitForEnds();

 private:
  void ReportWaits();

  const std::string task_;
  const absl::Duration report_after_;
  Mutex mutex_;
  CondVar changed_;  // the last step has ended, or closing_ was set
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status cancelled_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<WorkerStep*, absl::Time> running_ ABSL_GUARDED_BY(mutex_);  // and since when
  std::unique_ptr<Thread> watcher_;
};

}  // namespace thalweg
