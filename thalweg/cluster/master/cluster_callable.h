// A signature compiled for a cluster: a graph in each of the tasks that its steps
// need.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/cluster/peer_health.h"
#include "thalweg/cluster/worker/worker.h"
#include "thalweg/graph/graph.h"
#include "thalweg/runtime/prepare.h"
#include "thalweg/runtime/subgraph.h"

namespace thalweg {

struct MasterSessionOptions;

// Constant once it is made.
struct ClusterCallable {
  struct Part {
    std::string task;
    Worker* worker = nullptr;
    std::string graph_handle;
    std::vector<std::pair<int, std::string>> feeds;  // index in the signature, key
    std::vector<std::pair<int, std::string>> fetches;
  };
  Signature signature;
  std::vector<Part> parts;                         // the master's own, if it has one, last
  std::shared_ptr<const std::vector<Peer>> peers;  // the tasks of the other parts
  bool cleans_up = false;                          // after success, by itself
  int64_t collective_graph_key = 0;                // 0: it has no collectives
  bool updates = false;                            // changes variables, of other tasks if it spans several
  bool saves = false;                              // writes variables to a checkpoint

  // Tells the tasks to let go of what is left of a step.
  void CleanUp(int64_t step_id) const;
};

// How a master prepares the signatures of a session.
absl::StatusOr<PrepareOptions> PrepareOptionsOf(const MasterSessionOptions& session);

// Cuts a prepared graph into a part per task and registers the parts with their
// workers. `number` differs for each call of a session. `cancellation` ends it,
// with its reason. REQUIRES: no lock is held, since it waits for other tasks.
absl::StatusOr<std::shared_ptr<const ClusterCallable>> RegisterParts(Graph graph, const Signature& signature,
                                                                     int64_t number,
                                                                     const MasterSessionOptions& session,
                                                                     Cancellation& cancellation);

// An error of a task, as clients know it: "From /job:ps/replica:0/task:0:\n...".
absl::Status FromTask(const absl::Status& status, const std::string& task);

}  // namespace thalweg
