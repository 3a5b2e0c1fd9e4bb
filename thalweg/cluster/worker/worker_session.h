// SPDX-License-Identifier: Apache-2.0
// The state of one session in one task: its devices, its compiled graphs, and the kernels
// that keep state between steps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "thalweg/base/mutex.h"
#include "thalweg/cluster/collectives/task_collectives.h"
#include "thalweg/cluster/worker/sender_clock.h"
#include "thalweg/cluster/worker/step_rendezvous.h"
#include "thalweg/cluster/worker/update_ledger.h"
#include "thalweg/cluster/worker/wait_reason.h"
#include "thalweg/cluster/worker/worker.h"
#include "thalweg/kernel/device.h"
#include "thalweg/runtime/plan.h"
#include "thalweg/runtime/stateful_kernels.h"

namespace thalweg {

// A compiled partition. Feeds and fetches of the master are bound by position; the maps
// translate their rendezvous keys.
class RegisteredGraph {
 public:
  std::shared_ptr<Executable> executable;
  absl::flat_hash_map<std::string, int> arg_by_key;
  absl::flat_hash_map<std::string, int> result_by_key;
  bool trains = false;                            // updates variables or accumulates gradients
  bool has_transfers = false;                     // exchanges tensors with other tasks
  int saves = 0;                                  // the number of nodes that write variables to a checkpoint
  std::shared_ptr<GraphCollectives> collectives;  // if it has any
  std::shared_ptr<const TransferRules> rules;
  std::vector<WaitReason> wait_reasons;  // by Instruction::async_index; looked up here because every step needs them
};

// Thread-safe.
class WorkerSession {
 public:
  // `devices` belong to the task and are shared with other sessions, or belong to this
  // session only. The ledger is borrowed; all sessions of the task share it. `request_hash` is that of the
  // request that made the session.
  WorkerSession(std::string task, std::shared_ptr<Workers> workers, std::vector<std::shared_ptr<Device>> devices,
                UpdateLedger* ledger, std::string master_task = "", size_t request_hash = 0)
      : task_(std::move(task)),
        master_task_(std::move(master_task)),
        workers_(std::move(workers)),
        devices_(std::move(devices)),
        ledger_(ledger),
        request_hash_(request_hash) {}

  const std::string& task() const { return task_; }
  const std::string& master_task() const { return master_task_; }  // "": not known
  size_t request_hash() const { return request_hash_; }
  const std::shared_ptr<Workers>& workers() const { return workers_; }
  const std::vector<std::shared_ptr<Device>>& devices() const { return devices_; }
  ResourceManager& resources() { return resources_; }
  SenderClock& master_clock() { return master_clock_; }
  Device* FindDevice(const std::string& name) const;  // nullptr if there is none

  // Compiles a graph and returns its handle. INVALID_ARGUMENT if a node is placed on a
  // device of another task. `collective_leader` is the leader of graphs whose config does
  // not name one.
  absl::StatusOr<std::string> Register(const tensorflow::RegisterGraphRequest& request,
                                       const std::string& collective_leader);
  absl::Status Deregister(const std::string& handle);
  int num_graphs() const;
  // ABORTED if there is no such graph, for example after a restart.
  absl::StatusOr<std::shared_ptr<RegisteredGraph>> Find(const std::string& handle) const;
  // The same graph for a partial run, in which feeds and fetches go through the step's
  // rendezvous.
  absl::StatusOr<std::shared_ptr<Executable>> FindPartial(const std::string& handle);

 private:
  struct Graphs {
    std::shared_ptr<RegisteredGraph> whole;
    std::shared_ptr<Executable> partial;  // compiled on first use
    tensorflow::GraphDef def;
  };
  // `debug` has the tensors to watch.
  absl::StatusOr<std::shared_ptr<Executable>> CompileGraph(const tensorflow::GraphDef& def,
                                                           const tensorflow::DebugOptions& debug);

  const std::string task_;
  const std::string master_task_;
  const std::shared_ptr<Workers> workers_;
  const std::shared_ptr<LastCollective> last_collective_ = std::make_shared<LastCollective>(0);
  const std::vector<std::shared_ptr<Device>> devices_;
  UpdateLedger* const ledger_;
  const size_t request_hash_;
  SenderClock master_clock_;
  ResourceManager resources_;  // values that the session keeps by handle

  mutable Mutex mutex_;
  absl::flat_hash_map<std::string, Graphs> graphs_ ABSL_GUARDED_BY(mutex_);
  // Shared by all graphs, so that random ops continue their sequence in each of them.
  StatefulKernels kernels_;
};

}  // namespace thalweg
