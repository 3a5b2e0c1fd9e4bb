// SPDX-License-Identifier: Apache-2.0
// Turns a session's graph into the graph of one signature: prune, inline functions,
// place, optimize. Every kind of session prepares its signatures here. They differ in
// what they do with the result: a DirectSession compiles it, a master partitions it, and
// ExplainPlacement() reports it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/graph/graph.h"
#include "thalweg/kernel/device.h"
#include "thalweg/proto/graph.pb.h"
#include "thalweg/runtime/graph_optimizer.h"
#include "thalweg/runtime/placer.h"
#include "thalweg/runtime/subgraph.h"

namespace thalweg {

struct PrepareOptions {
  PlacerOptions placer;  // `states` is ignored; SessionGraph has its own
  bool log_device_placement = false;
  // Tasks that have left the cluster. If a node cannot be placed, they are the likely
  // reason, and the error names them.
  std::vector<std::string> absent_tasks;
  Device* folding_device = nullptr;  // borrowed; computes constants. REQUIRED by Prepare()
  GraphOptimizerOptions optimizer;
};

// The graph of a session, which can only grow. Thread-safe. The lock is held while the
// graph is read or extended and while nodes are placed, but not while functions are
// inlined or constants folded, so signatures can be prepared concurrently.
class SessionGraph {
 public:
  // Adds nodes. On an error, adds none.
  absl::Status Import(const tensorflow::GraphDef& def);
  // The same, if the graph still has `expected_version`; otherwise ABORTED. Returns the
  // new version. The first version is 0.
  absl::StatusOr<int64_t> Extend(const tensorflow::GraphDef& def, int64_t expected_version);

  // The graph for `signature`, ready to be compiled or partitioned. If `cancellation` is
  // cancelled, returns its status. UNAVAILABLE, naming the absent tasks, if a node cannot
  // be placed and tasks are absent.
  absl::StatusOr<Graph> Prepare(const Signature& signature, const PrepareOptions& options, Cancellation& cancellation);
  // The placement of each node of that graph, before it is optimized.
  absl::StatusOr<std::vector<Placed>> ExplainPlacement(const Signature& signature, const PrepareOptions& options);

  // Calls `read` with the graph, under the lock.
  absl::Status Read(absl::FunctionRef<absl::Status(const Graph&)> read) const;

 private:
  struct PlacedGraph {
    Graph graph;
    std::vector<std::string> targets;  // targets of the signature and of inlined functions
    std::vector<Placed> placement;
  };
  absl::StatusOr<PlacedGraph> PlaceSignature(const Signature& signature, const PrepareOptions& options);
  absl::StatusOr<Graph> Prune(const Signature& signature, const PrepareOptions& options);
  absl::StatusOr<std::vector<Placed>> PlaceNodes(Graph& graph, const PrepareOptions& options) const;

  mutable Mutex mutex_;
  Graph graph_ ABSL_GUARDED_BY(mutex_);
  StatePlacement states_ ABSL_GUARDED_BY(mutex_);
  int64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace thalweg
