// From a session's graph to the graph that the steps of one signature run:
// prune, inline functions, place, optimize. Every kind of session prepares its
// signatures here; what differs is what they do with the result. A DirectSession
// compiles it, a master partitions it, and ExplainPlacement() only looks at it.
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
  PlacerOptions placer;  // `states` is ignored: the graph brings its own
  bool log_device_placement = false;
  // Tasks that have left the cluster. If a node has no place, they are the likely
  // reason, and the error names them.
  std::vector<std::string> absent_tasks;
  Device* folding_device = nullptr;  // borrowed; computes constants. REQUIRED by Prepare()
  GraphOptimizerOptions optimizer;
};

// The graph of a session, which only grows. Thread-safe. The lock is held while
// the graph is read or extended and while nodes are placed, never while functions
// are inlined or constants folded, so that signatures are prepared side by side.
class SessionGraph {
 public:
  // Adds nodes; all or, with an error, none.
  absl::Status Import(const tensorflow::GraphDef& def);
  // The same, for a client that has seen `expected_version`. Returns the new
  // version; ABORTED if the graph has another. The first version is 0.
  absl::StatusOr<int64_t> Extend(const tensorflow::GraphDef& def, int64_t expected_version);

  // The graph for `signature`, ready to be compiled or partitioned.
  // `cancellation` ends it, with its reason. UNAVAILABLE, naming them, if a node
  // has no place and tasks are absent.
  absl::StatusOr<Graph> Prepare(const Signature& signature, const PrepareOptions& options, Cancellation& cancellation);
  // Where each node of that graph goes, before it is optimized.
  absl::StatusOr<std::vector<Placed>> ExplainPlacement(const Signature& signature, const PrepareOptions& options);

  // Calls `read` with the graph, under the lock.
  absl::Status Read(absl::FunctionRef<absl::Status(const Graph&)> read) const;

 private:
  struct PlacedGraph {
    Graph graph;
    std::vector<std::string> targets;  // those of the signature and of what was inlined
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
