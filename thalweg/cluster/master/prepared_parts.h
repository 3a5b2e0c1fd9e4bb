// What the steps of a signature were compiled to: a graph in each of the tasks
// that they need.
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
#include "thalweg/runtime/subgraph.h"

namespace thalweg {

class StatePlacement;
struct MasterSessionOptions;

// Constant once it is made.
struct PreparedParts {
  struct Part {
    std::string task;
    Worker* worker = nullptr;
    std::string graph_handle;
    std::vector<std::pair<int, std::string>> feeds;  // index in the signature, key
    std::vector<std::pair<int, std::string>> fetches;
  };
  std::vector<Part> parts;                         // the master's own, if it has one, last
  std::shared_ptr<const std::vector<Peer>> peers;  // those of the others
  bool cleans_up = false;                          // after success, by itself
  int64_t collective_graph_key = 0;                // 0: it has no collectives

  // The tasks let go of what is left of a step.
  void CleanUp(int64_t step_id) const;
};

// `states` is the session's. Prunes, places, optimizes and cuts the graph, and registers the parts with
// their workers. `number` is another for each call of a session. UNAVAILABLE,
// naming it, if it needs a task that has left. `cancellation` ends it, with its
// reason.
absl::StatusOr<std::shared_ptr<const PreparedParts>> PrepareParts(const Graph& graph, StatePlacement& states,
                                                                  const Signature& signature, int64_t number,
                                                                  const MasterSessionOptions& session,
                                                                  Cancellation& cancellation);

// An error of a task, as clients know it: "From /job:ps/replica:0/task:0:\n...".
absl::Status FromTask(const absl::Status& status, const std::string& task);

}  // namespace thalweg
