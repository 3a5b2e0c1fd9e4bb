// One session of a master: its graph, the callables that it was compiled to, and
// the steps that run.
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

struct MasterSessionOptions {
  std::string handle;
  std::string self;  // the master's task, as the session's cluster calls it
  tensorflow::ConfigProto config;
  std::shared_ptr<Workers> workers;
  ClusterDevices devices;
  std::shared_ptr<Device> folding_device;  // runs what can be computed beforehand
  Timer* timer = nullptr;                  // borrowed: deadlines of steps
  PeerHealth* health = nullptr;            // borrowed
  UpdateGate* gate = nullptr;              // borrowed; nullptr: steps are not held back
  CollectiveStepIds* sequences = nullptr;  // borrowed; shared with the server's worker

  // Where nodes go that may go anywhere: the master's own tasks come first.
  const std::string& client_device() const { return devices.tasks[0].devices[0].name(); }
};

class MasterPartialRun;
struct MasterStepCall;

// Thread-safe. Steps that run share it.
class MasterSession : public std::enable_shared_from_this<MasterSession> {
 public:
  using Done = Master::Done;

  explicit MasterSession(MasterSessionOptions options);

  const std::string& handle() const { return options_.handle; }

  // Makes the worker sessions, without waiting for them. `cluster` is given if the
  // session brings its own. If it fails, Close() lets go of those that were made.
  void Open(const CallOptions& options, const ClusterSpec* cluster, Done done);

  // Adds nodes, if the graph is at `expected_version`; returns the new version.
  absl::StatusOr<int64_t> Extend(const tensorflow::GraphDef& def, int64_t expected_version);
  absl::Status Create(const tensorflow::GraphDef& def);

  void RunStep(const CallOptions& options, RunStepCall call, RunStepResult* result, Done done);
  absl::StatusOr<std::string> SetUpPartialRun(const Signature& signature);
  absl::StatusOr<int64_t> MakeCallable(const tensorflow::CallableOptions& options);
  void RunCallable(const CallOptions& options, int64_t handle, std::vector<Tensor> feeds, RunStepResult* result,
                   Done done);
  absl::Status ReleaseCallable(int64_t handle);
  void ListDevices(tensorflow::ListDevicesResponse* response) const;

  // Cancels the steps that run and waits for their end; workers forget the
  // session. Every later call is FAILED_PRECONDITION.
  absl::Status Close();

  const MasterSessionOptions& options() const { return options_; }
  bool busy() const;  // a step runs, or is prepared

 private:
  struct Opening;
  absl::StatusOr<tensorflow::CreateWorkerSessionRequest> WorkerSessionRequest(const std::string& task,
                                                                              const ClusterSpec* cluster) const;
  absl::Status Opened(const Opening& opening);
  using PreparedCallable = absl::StatusOr<std::shared_ptr<const ClusterCallable>>;

  PreparedCallable Prepare(const Signature& signature, Cancellation& cancellation);
  // The same for a signature that may depend on the texts of feeds.
  PreparedCallable Prepare(const Signature& signature, const std::vector<Tensor>& feeds, Cancellation& cancellation);
  // Begins a step, or a preparation.
  absl::StatusOr<std::unique_ptr<StepScope>> Begin(const CallOptions& options,
                                                   const tensorflow::RunOptions& run_options);
  std::vector<Peer> Others() const;  // the tasks of the session, without the master\'s
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
  std::atomic<int64_t> next_number_{0};  // of what is registered with workers
  std::atomic<bool> any_by_text_{false};

  mutable Mutex mutex_;
  // The feeds whose text a signature depends on, by its key.
  absl::flat_hash_map<std::string, std::vector<int>> by_text_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, std::shared_ptr<MasterPartialRun>> partial_runs_ ABSL_GUARDED_BY(mutex_);
  // Callables that the client has a handle of.
  struct ClientCallable {
    std::shared_ptr<const ClusterCallable> callable;
    tensorflow::RunOptions run_options;
  };
  absl::flat_hash_map<int64_t, ClientCallable> client_callables_ ABSL_GUARDED_BY(mutex_);
  int64_t next_handle_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace thalweg
