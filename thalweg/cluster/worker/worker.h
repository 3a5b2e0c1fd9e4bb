// SPDX-License-Identifier: Apache-2.0
// The worker service of a task, as masters and other workers see it. LocalWorker implements
// it; rpc/ has a stub that forwards calls to another process.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/kernel/rendezvous.h"
#include "thalweg/proto/graph.pb.h"
#include "thalweg/proto/step_stats.pb.h"
#include "thalweg/proto/worker.pb.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// The deadline and the cancellation of a call.
struct CallOptions {
  absl::Duration timeout = absl::InfiniteDuration();
  Cancellation* cancellation = nullptr;  // must outlive the call
  bool wait_for_ready = false;           // wait until the task is reachable instead of failing with UNAVAILABLE
  // Use a connection that carries no tensors. Heartbeats would otherwise queue behind megabytes of other calls, and a
  // slow transfer would look like a dead task.
  bool apart = false;
};

// A tensor on its way from one task to another, by its rendezvous key.
struct Transfer {
  std::string key;
  Rendezvous::Value value;
};

// A call that runs one partition of a step. Tensors are identified by rendezvous keys.
struct RunGraphCall {
  std::string session_handle;
  bool has_session = true;  // a worker session with that handle was created
  std::string graph_handle;
  int64_t step_id = 0;
  int64_t collective_step_id = 0;  // 0: the same as step_id
  int64_t request_id = 0;
  uint64_t client = 0;  // client and sequence identify a repeatable step, see update_ledger.h; 0: none
  int64_t sequence = 0;
  int64_t sent_nanos = 0;   // send time on the master's clock
  int64_t valid_nanos = 0;  // the step must begin within this time after sent_nanos; 0: no limit
  uint64_t pause = 0;       // tell the master when the values that the step saves are held; 0: no
  std::vector<std::pair<std::string, Tensor>> send;
  std::vector<std::string> recv_keys;
  bool is_partial = false;
  bool is_last_partial = false;
  bool trace = false;
  bool record_costs = false;
  bool partition_graphs = false;
};

struct RunGraphResult {
  std::vector<std::pair<std::string, Tensor>> recv;  // in the order of recv_keys
  std::vector<Transfer> pushed;                      // tensors for the master's own partition
  tensorflow::StepStats step_stats;
  tensorflow::CostGraphDef cost_graph;
  std::vector<tensorflow::GraphDef> partition_graphs;
};

// Thread-safe. `done` runs exactly once, before the call returns or later, on any thread.
// Everything that a call gets by pointer or reference must live until then.
class Worker {
 public:
  using Done = absl::AnyInvocable<void(const absl::Status&)>;
  virtual ~Worker() = default;

  // Checks that a session exists before the rest of a call is decoded. A stub returns OK:
  // the remote worker checks.
  virtual absl::Status CheckSession(const std::string& handle, bool has_session) { return absl::OkStatus(); }
  // Whether a push of `bytes` is accepted. Called before the push is acknowledged.
  virtual absl::Status AdmitPush(int64_t step_id, int64_t bytes) { return absl::OkStatus(); }
  virtual void GetStatus(const CallOptions& options, tensorflow::GetStatusResponse* response, Done done) = 0;
  virtual void CreateWorkerSession(const CallOptions& options, const tensorflow::CreateWorkerSessionRequest& request,
                                   Done done) = 0;
  virtual void DeleteWorkerSession(const CallOptions& options, const tensorflow::DeleteWorkerSessionRequest& request,
                                   Done done) = 0;
  virtual void RegisterGraph(const CallOptions& options, const tensorflow::RegisterGraphRequest& request,
                             tensorflow::RegisterGraphResponse* response, Done done) = 0;
  virtual void DeregisterGraph(const CallOptions& options, const tensorflow::DeregisterGraphRequest& request,
                               Done done) = 0;
  // Cancelling the call ends the step in this task.
  virtual void RunGraph(const CallOptions& options, RunGraphCall call, RunGraphResult* result, Done done) = 0;
  // The step is over: discards tensors that were sent but never fetched.
  virtual void CleanupGraph(const CallOptions& options, int64_t step_id, Done done) = 0;
  virtual void CleanupAll(const CallOptions& options, const tensorflow::CleanupAllRequest& request, Done done) = 0;
  virtual void RecvTensor(const CallOptions& options, const tensorflow::RecvTensorRequest& request,
                          Rendezvous::Value* value, Done done) = 0;
  // Delivers tensors that a step sends to this task. REQUIRES: its GetStatus() says that it
  // takes pushes.
  virtual void Push(const CallOptions& options, int64_t step_id, std::vector<Transfer> tensors, Done done) = 0;

  // Collectives: fetches data that this task sends to another member. `value` provides the
  // memory; it is filled, or replaced by a tensor with the same bytes.
  virtual void RecvBuf(const CallOptions& options, const tensorflow::RecvBufRequest& request, Tensor* value,
                       Done done) = 0;
  // Calls to the leader of a group: a device joins the group, a device has reached a
  // collective op, and the id of the next step is requested.
  virtual void CompleteGroup(const CallOptions& options, const tensorflow::CompleteGroupRequest& request,
                             tensorflow::CompleteGroupResponse* response, Done done) = 0;
  virtual void CompleteInstance(const CallOptions& options, const tensorflow::CompleteInstanceRequest& request,
                                tensorflow::CompleteInstanceResponse* response, Done done) = 0;
  virtual void GetStepSequence(const CallOptions& options, const tensorflow::GetStepSequenceRequest& request,
                               tensorflow::GetStepSequenceResponse* response, Done done) = 0;
  // Tells this task that a member has given up a step.
  virtual void AbortCollective(const CallOptions& options, const tensorflow::AbortCollectiveRequest& request,
                               Done done) = 0;
  // Pauses or resumes the steps of this task's master that update variables; see
  // master/update_gate.h.
  virtual void PauseUpdates(const CallOptions& options, const tensorflow::PauseUpdatesRequest& request, Done done) = 0;
};

// The workers of a cluster, by task ("/job:ps/replica:0/task:1"). Thread-safe.
class Workers {
 public:
  virtual ~Workers() = default;
  virtual Worker* Find(absl::string_view task) = 0;  // nullptr if the cluster has no such task
  virtual std::vector<std::string> tasks() const = 0;
};

}  // namespace thalweg
