// The worker of this task: what it does for masters and for other workers.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "thalweg/base/mutex.h"
#include "thalweg/cluster/cluster_spec.h"
#include "thalweg/cluster/collectives/collective_step_ids.h"
#include "thalweg/cluster/collectives/task_collectives.h"
#include "thalweg/cluster/membership.h"
#include "thalweg/cluster/wait_logging.h"
#include "thalweg/cluster/worker/running_steps.h"
#include "thalweg/cluster/worker/step_rendezvous.h"
#include "thalweg/cluster/worker/worker.h"
#include "thalweg/cluster/worker/worker_partial_runs.h"
#include "thalweg/cluster/worker/worker_session.h"
#include "thalweg/cluster/worker/worker_step.h"
#include "thalweg/runtime/local_devices.h"

namespace thalweg {

// Gives the workers of a cluster in which this task is `self`.
using WorkersFactory =
    std::function<absl::StatusOr<std::shared_ptr<Workers>>(const ClusterSpec& cluster, const TaskId& self)>;

struct LocalWorkerOptions {
  TaskId task;
  LocalDevices* devices = nullptr;   // borrowed
  Membership* membership = nullptr;  // borrowed
  // Of sessions that bring a cluster of their own.
  WorkersFactory make_workers;
  CollectiveStepIds* sequences = nullptr;           // borrowed; shared with the server's master
  std::string collective_leader;                    // of graphs that name none
  absl::Duration peer_timeout = absl::Seconds(10);  // a task that does not answer for so long is dead
  absl::Duration report_after = kLogWaitAfter;      // a wait of so long is logged
};

class LocalWorker : public Worker {
 public:
  explicit LocalWorker(const LocalWorkerOptions& options);
  // Ends all steps. REQUIRES: no call comes any more.
  ~LocalWorker() override;

  // The cluster that this task belongs to. REQUIRES: called once, before any call.
  void SetWorkers(std::shared_ptr<Workers> workers);

  void GetStatus(const CallOptions& options, tensorflow::GetStatusResponse* response, Done done) override;
  void CreateWorkerSession(const CallOptions& options, const tensorflow::CreateWorkerSessionRequest& request,
                           Done done) override;
  void DeleteWorkerSession(const CallOptions& options, const tensorflow::DeleteWorkerSessionRequest& request,
                           Done done) override;
  void RegisterGraph(const CallOptions& options, const tensorflow::RegisterGraphRequest& request,
                     tensorflow::RegisterGraphResponse* response, Done done) override;
  void DeregisterGraph(const CallOptions& options, const tensorflow::DeregisterGraphRequest& request,
                       Done done) override;
  void RunGraph(const CallOptions& options, RunGraphCall call, RunGraphResult* result, Done done) override;
  void CleanupGraph(const CallOptions& options, int64_t step_id, Done done) override;
  void CleanupAll(const CallOptions& options, const tensorflow::CleanupAllRequest& request, Done done) override;
  void RecvTensor(const CallOptions& options, const tensorflow::RecvTensorRequest& request, Rendezvous::Value* value,
                  Done done) override;
  void Push(const CallOptions& options, int64_t step_id, std::vector<Transfer> tensors, Done done) override;
  void RecvBuf(const CallOptions& options, const tensorflow::RecvBufRequest& request, Tensor* value,
               Done done) override;
  void CompleteGroup(const CallOptions& options, const tensorflow::CompleteGroupRequest& request,
                     tensorflow::CompleteGroupResponse* response, Done done) override;
  void CompleteInstance(const CallOptions& options, const tensorflow::CompleteInstanceRequest& request,
                        tensorflow::CompleteInstanceResponse* response, Done done) override;
  void GetStepSequence(const CallOptions& options, const tensorflow::GetStepSequenceRequest& request,
                       tensorflow::GetStepSequenceResponse* response, Done done) override;
  void AbortCollective(const CallOptions& options, const tensorflow::AbortCollectiveRequest& request,
                       Done done) override;

  // Cancels every step that runs here, for good: the task ends.
  void Shutdown(const absl::Status& why);

 private:
  absl::StatusOr<std::shared_ptr<WorkerSession>> FindSession(const std::string& handle, bool has_session) const;

  const LocalWorkerOptions options_;
  std::shared_ptr<WorkerSession> default_session_;  // of masters that make none
  StepTable rendezvous_;
  TaskCollectives collectives_;
  RunningSteps running_;
  const StepEnvironment environment_;
  WorkerPartialRuns partial_runs_;

  mutable Mutex mutex_;
  absl::Status shut_down_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, std::shared_ptr<WorkerSession>> sessions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
