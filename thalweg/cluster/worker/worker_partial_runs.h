// SPDX-License-Identifier: Apache-2.0
// Partial runs: steps of a task that the master feeds and fetches in several calls.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "thalweg/base/mutex.h"
#include "thalweg/cluster/worker/worker.h"
#include "thalweg/cluster/worker/worker_session.h"
#include "thalweg/cluster/worker/worker_step.h"

namespace thalweg {

// Thread-safe.
class WorkerPartialRuns {
 public:
  explicit WorkerPartialRuns(const StepEnvironment& environment) : environment_(environment) {}

  // Serves one call, like Worker::RunGraph(). The first call of a step starts it.
  void Run(const CallOptions& options, RunGraphCall call, std::shared_ptr<WorkerSession> session,
           RunGraphResult* result, Worker::Done done);
  // The step is over. Cancels it if it still runs.
  void Remove(int64_t step_id, const absl::Status& why);
  // Ends the partial runs of a session whose master is gone.
  void RemoveOf(const WorkerSession& session, const absl::Status& why);
  // Cancels all current and future partial runs.
  void CancelAll(const absl::Status& why);

 private:
  class PartialRun;
  // The partial run of a step, and whether it is new.
  absl::StatusOr<std::pair<std::shared_ptr<PartialRun>, bool>> FindOrMake(const RunGraphCall& call,
                                                                          std::shared_ptr<WorkerSession> session);

  const StepEnvironment environment_;
  Mutex mutex_;
  absl::Status cancelled_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<int64_t, std::shared_ptr<PartialRun>> runs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
