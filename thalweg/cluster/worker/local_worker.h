// SPDX-License-Identifier: Apache-2.0
// The worker service of this task, which serves masters and other workers.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "thalweg/base/mutex.h"
#include "thalweg/cluster/cluster_spec.h"
#include "thalweg/cluster/collectives/collective_step_ids.h"
#include "thalweg/cluster/collectives/task_collectives.h"
#include "thalweg/cluster/master/update_gate.h"
#include "thalweg/cluster/membership.h"
#include "thalweg/cluster/peer_health.h"
#include "thalweg/cluster/wait_logging.h"
#include "thalweg/cluster/worker/running_steps.h"
#include "thalweg/cluster/worker/session_leases.h"
#include "thalweg/cluster/worker/step_rendezvous.h"
#include "thalweg/cluster/worker/step_table.h"
#include "thalweg/cluster/worker/suspension_watch.h"
#include "thalweg/cluster/worker/update_ledger.h"
#include "thalweg/cluster/worker/worker.h"
#include "thalweg/cluster/worker/worker_partial_runs.h"
#include "thalweg/cluster/worker/worker_session.h"
#include "thalweg/cluster/worker/worker_step.h"
#include "thalweg/runtime/local_devices.h"

namespace thalweg {

// Creates stubs for the workers of a cluster in which this task is `self`.
using WorkersFactory =
    std::function<absl::StatusOr<std::shared_ptr<Workers>>(const ClusterSpec& cluster, const TaskId& self)>;

struct LocalWorkerOptions {
  TaskId task;
  LocalDevices* devices = nullptr;   // borrowed
  Membership* membership = nullptr;  // borrowed
  // For sessions with their own cluster definition.
  WorkersFactory make_workers;
  CollectiveStepIds* sequences = nullptr;  // borrowed; shared with the server's master
  std::string collective_leader;           // for graphs that do not name one
  PeerHealth* health = nullptr;            // borrowed; nullptr: other tasks are not watched
  DirectCollectivesOptions direct_collectives;
  UpdateGate* gate = nullptr;                     // borrowed; the gate of the server's master, if it has one
  TaskMonitor* monitor = nullptr;                 // borrowed; nullptr: nothing is recorded
  absl::Duration log_wait_after = kLogWaitAfter;  // how long a wait may last before it is logged
  // The sessions of a master are closed when it has not answered for this long.
  absl::Duration master_lease = absl::Minutes(10);
  // Called when a master of Thalweg's prepares steps; the argument is the name of its task.
  std::function<void(const std::string&)> on_master = [](const std::string&) {};
};

class LocalWorker : public Worker {
 public:
  explicit LocalWorker(const LocalWorkerOptions& options);
  // Ends all steps. REQUIRES: no more calls arrive.
  ~LocalWorker() override;

  // Sets the cluster that this task belongs to. REQUIRES: called once, before any call.
  void SetWorkers(std::shared_ptr<Workers> workers);

  absl::Status CheckSession(const std::string& handle, bool has_session) override {
    return FindSession(handle, has_session).status();
  }
  absl::Status AdmitPush(int64_t step_id, int64_t bytes) override { return rendezvous_.Admit(step_id, bytes); }
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
  void PauseUpdates(const CallOptions& options, const tensorflow::PauseUpdatesRequest& request, Done done) override;

  // Whether only TensorFlow masters have used this task and all of them have closed their
  // sessions, which is when they have deregistered all of their graphs.
  bool ForeignClientsLeft() const;

  int num_sessions() const;

  // The steps that run, for people.
  std::vector<std::string> DescribeSteps() { return running_.Describe(); }

  // Cancels all running steps and refuses new ones, because the task ends. Waits for them.
  void Shutdown(const absl::Status& why);

 private:
  // A client that lost a task closes its session and repeats its step in a new one. A pause in between must reach the
  // master, too.
  void RememberMaster(const WorkerSession& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells the master of a new session about the pauses that it has missed.
  void RelayPauses(const std::string& handle);
  // Call this before a step starts or continues. If this process was stopped for so long
  // that masters have declared it dead, it ends the steps that were running.
  void CheckSuspension() {
    if (suspensions_.has_value()) suspensions_->Check();
  }
  // UNAVAILABLE if the call was in transit for so long that its master has given up the
  // step.
  absl::Status CheckFresh(const RunGraphCall& call, WorkerSession& session) const;
  // Pauses or resumes this task's own gate.
  void PauseOwn(const tensorflow::PauseUpdatesRequest& request, Done done);
  // The masters in other tasks that have sessions here.
  std::vector<Peer> OtherMasters() const;
  absl::StatusOr<std::shared_ptr<WorkerSession>> FindSession(const std::string& handle, bool has_session) const;
  // Removes sessions. Their running steps keep them alive until they end.
  void DropSessions(const std::vector<std::string>& handles);

  const LocalWorkerOptions options_;
  std::shared_ptr<WorkerSession> default_session_;  // for masters that create no session
  StepTable rendezvous_;
  TaskCollectives collectives_;
  UpdateLedger ledger_;
  RunningSteps running_;
  std::optional<SuspensionWatch> suspensions_;
  const StepEnvironment environment_;
  WorkerPartialRuns partial_runs_;

  std::atomic<bool> had_foreign_clients_{false};
  std::atomic<bool> had_own_clients_{false};  // Thalweg masters, which announce their end

  mutable Mutex mutex_;
  absl::Status shut_down_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, std::shared_ptr<WorkerSession>> sessions_ ABSL_GUARDED_BY(mutex_);
  // The masters whose sessions were closed in the last seconds.
  struct FormerMaster {
    Peer peer;
    int64_t closed_nanos = 0;
  };
  std::vector<FormerMaster> former_masters_ ABSL_GUARDED_BY(mutex_);
  SessionLeases leases_;  // the last member: destroyed first, because it calls back
};

}  // namespace thalweg
