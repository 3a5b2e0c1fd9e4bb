// SPDX-License-Identifier: Apache-2.0
// A signature compiled for a cluster: a registered graph in each task that its steps
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

// Immutable after construction.
struct ClusterCallable {
  struct Part {
    std::string task;
    Worker* worker = nullptr;
    std::string graph_handle;
    std::vector<std::pair<int, std::string>> feeds;  // index in the signature, key
    std::vector<std::pair<int, std::string>> fetches;
    bool saves = false;  // has nodes that write variables to a checkpoint
  };
  Signature signature;
  std::vector<Part> parts;                         // the master's own part, if any, is the last
  std::shared_ptr<const std::vector<Peer>> peers;  // the tasks of the other parts
  bool cleans_up = false;                          // workers clean up by themselves after a successful step
  int64_t collective_graph_key = 0;                // 0: no collectives
  bool updates = false;                            // updates variables; if it spans tasks, those of other tasks
  bool writes_checkpoint = false;                  // writes a checkpoint, of variables or of values taken before
  bool saves = false;                              // writes variables to a checkpoint
  bool restores = false;                           // reads a checkpoint
  bool trains = false;                             // updates variables or contributes a gradient

  // Tells the tasks to discard what is left of a step.
  void CleanUp(int64_t step_id) const;
  // Tells the tasks to discard the graphs. REQUIRES: no step uses them.
  void Deregister(const std::string& session_handle) const;
};

// The options with which a master prepares the signatures of a session.
absl::StatusOr<PrepareOptions> PrepareOptionsOf(const MasterSessionOptions& session);

// Partitions a prepared graph by task and registers the partitions with their workers.
// `number` must be unique in the session. `debug` has the tensors to watch. If `cancellation` is cancelled, returns its
// status. REQUIRES: no lock is held, because this waits for other tasks.
absl::StatusOr<std::shared_ptr<const ClusterCallable>> RegisterParts(Graph graph, const Signature& signature,
                                                                     int64_t number,
                                                                     const MasterSessionOptions& session,
                                                                     Cancellation& cancellation,
                                                                     const tensorflow::DebugOptions& debug = {});

// Prefixes an error with its task in TensorFlow's format: "From
// /job:ps/replica:0/task:0:\n...".
absl::Status FromTask(const absl::Status& status, const std::string& task);

}  // namespace thalweg
