// SPDX-License-Identifier: Apache-2.0
// One session of a master: its graph, its compiled callables, and its running steps.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/timer.h"
#include "thalweg/cluster/cluster_spec.h"
#include "thalweg/cluster/collectives/collective_step_ids.h"
#include "thalweg/cluster/master/cluster_callable.h"
#include "thalweg/cluster/master/master.h"
#include "thalweg/cluster/master/update_gate.h"
#include "thalweg/cluster/membership.h"
#include "thalweg/cluster/peer_health.h"
#include "thalweg/cluster/worker/worker.h"
#include "thalweg/kernel/device.h"
#include "thalweg/proto/graph.pb.h"
#include "thalweg/runtime/active_steps.h"
#include "thalweg/runtime/callable_cache.h"
#include "thalweg/runtime/prepare.h"
#include "thalweg/runtime/subgraph.h"

namespace thalweg {

class TaskMonitor;

struct MasterSessionOptions {
  std::string handle;
  std::string self;  // the master's task, as the session's cluster calls it
  tensorflow::ConfigProto config;
  std::shared_ptr<Workers> workers;
  ClusterDevices devices;
  std::shared_ptr<Device> folding_device;  // computes constants during optimization
  Timer* timer = nullptr;                  // borrowed; runs the deadlines of steps
  PeerHealth* health = nullptr;            // borrowed
  Membership* membership = nullptr;        // borrowed; nullptr: the server's does not hold for the session's cluster
  UpdateGate* gate = nullptr;              // borrowed; nullptr: steps are not held back
  CollectiveStepIds* sequences = nullptr;  // borrowed; shared with the server's worker
  TaskMonitor* monitor = nullptr;          // borrowed; nullptr: steps are not recorded

  // The default device for unconstrained nodes: the first device of the master's own task.
  const std::string& client_device() const { return devices.tasks[0].devices[0].name(); }
};

class MasterPartialRun;
struct MasterStepCall;

// Thread-safe. Running steps hold a reference to it.
class MasterSession : public std::enable_shared_from_this<MasterSession> {
 public:
  using Done = Master::Done;

  explicit MasterSession(MasterSessionOptions options);

  const std::string& handle() const { return options_.handle; }

  // Creates the worker sessions, asynchronously. `cluster` is set if the session has its
  // own cluster definition. If this fails, Close() deletes those that were created.
  void Open(const CallOptions& options, const ClusterSpec* cluster, Done done);

  // Adds nodes if the graph has `expected_version`. Returns the new version.
  absl::StatusOr<int64_t> Extend(const tensorflow::GraphDef& def, int64_t expected_version);
  absl::Status Create(const tensorflow::GraphDef& def);

  void RunStep(const CallOptions& options, RunStepCall call, RunStepResult* result, Done done);
  absl::StatusOr<std::string> SetUpPartialRun(const Signature& signature);
  absl::StatusOr<int64_t> MakeCallable(const CallOptions& call, const tensorflow::CallableOptions& options);
  void RunCallable(const CallOptions& options, RunCallableCall call, RunStepResult* result, Done done);
  absl::Status ReleaseCallable(int64_t handle);
  void ListDevices(tensorflow::ListDevicesResponse* response) const;

  // Cancels the running steps, waits for their end, and deletes the worker sessions. Every
  // later call returns FAILED_PRECONDITION.
  absl::Status Close();

  const MasterSessionOptions& options() const { return options_; }
  bool busy() const;  // a step is running or being prepared

 private:
  struct Opening;
  absl::StatusOr<tensorflow::CreateWorkerSessionRequest> WorkerSessionRequest(const std::string& task,
                                                                              const ClusterSpec* cluster) const;
  absl::Status Opened(const Opening& opening);
  using PreparedCallable = absl::StatusOr<std::shared_ptr<const ClusterCallable>>;

  PreparedCallable Prepare(const Signature& signature, Cancellation& cancellation);
  // The same for a signature that may depend on the values of string feeds.
  PreparedCallable Prepare(const Signature& signature, const std::vector<Tensor>& feeds, Cancellation& cancellation);
  // The same for a step whose tensors tfdbg watches. Not cached, because each step has its own
  // folder, and not optimized, because every node may be watched.
  PreparedCallable PrepareDebugged(const Signature& signature, const tensorflow::DebugOptions& debug,
                                   Cancellation& cancellation);
  // Registers the beginning of a step or a preparation.
  absl::StatusOr<std::unique_ptr<StepScope>> Begin(const CallOptions& options,
                                                   const tensorflow::RunOptions& run_options);
  std::vector<Peer> Others() const;  // the tasks of the session except the master's own
  void RunPartial(const CallOptions& options, RunStepCall call, RunStepResult* result, Done done);
  absl::Status CheckComputable(const std::string& fetch, const std::set<std::string>& not_fed) const;
  void Run(MasterStepCall call);
  void RunCollective(MasterStepCall call);
  void RunAtOneMoment(MasterStepCall call);
  void Start(MasterStepCall call);
  void Launch(MasterStepCall call);
  const std::string& collective_leader() const;

  // Constant after Open().
  MasterSessionOptions options_;
  PrepareOptions prepare_options_;

  ActiveSteps steps_;
  SessionGraph graph_;
  CallableCache<const ClusterCallable> callables_;
  std::atomic<int64_t> next_number_{0};  // numbers the callables that are registered with workers
  std::atomic<int64_t> debugged_steps_{0};
  std::atomic<bool> any_by_text_{false};

  mutable Mutex mutex_;
  // By signature key: the indices of the string feeds on whose values it depends.
  absl::flat_hash_map<std::string, std::vector<int>> by_text_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, std::shared_ptr<MasterPartialRun>> partial_runs_ ABSL_GUARDED_BY(mutex_);
  // Callables that the client created with MakeCallable().
  struct ClientCallable {
    std::shared_ptr<const ClusterCallable> callable;
    tensorflow::RunOptions run_options;
  };
  absl::flat_hash_map<int64_t, ClientCallable> client_callables_ ABSL_GUARDED_BY(mutex_);
  int64_t next_handle_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace thalweg
