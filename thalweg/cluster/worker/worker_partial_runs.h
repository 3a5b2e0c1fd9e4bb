// Steps of a task that the master feeds and fetches in several calls.
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

  // One call of the master's, as Worker::RunGraph(). The first of a step starts it.
  void Run(const CallOptions& options, RunGraphCall call, std::shared_ptr<WorkerSession> session,
           RunGraphResult* result, Worker::Done done);
  // The step is over: it is cancelled if it still runs.
  void Remove(int64_t step_id, const absl::Status& why);
  // Cancels all, for good.
  // Ends those of a session, whose master will not come back for them.
  void RemoveOf(const WorkerSession& session, const absl::Status& why);
  void CancelAll(const absl::Status& why);

 private:
  class PartialRun;
  // The run of a step, and whether it is new.
  absl::StatusOr<std::pair<std::shared_ptr<PartialRun>, bool>> FindOrMake(const RunGraphCall& call,
                                                                          std::shared_ptr<WorkerSession> session);

  const StepEnvironment environment_;
  Mutex mutex_;
  absl::Status cancelled_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<int64_t, std::shared_ptr<PartialRun>> runs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
