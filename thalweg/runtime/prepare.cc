// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/prepare.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"
#include "thalweg/proto/graph.pb.h"
#include "thalweg/runtime/functions.h"

namespace thalweg {
namespace {

// TensorFlow 2.3's version of graphs: since then a node that asks for no task goes to
// the master's own. Before, it went to the first device by name, which is the same for
// all sessions of a cluster: programs share variables by that.
constexpr int kFirstVersionWithOwnTask = 440;

PlacerOptions PlacerFor(const Graph& graph, const PlacerOptions& options) {
  PlacerOptions placer = options;
  const int version = graph.versions().producer();
  if (version == 0 || version >= kFirstVersionWithOwnTask) return placer;
  std::sort(placer.devices.begin(), placer.devices.end(),
            [](const auto& a, const auto& b) { return a.name.ToString() < b.name.ToString(); });
  placer.default_device.clear();
  return placer;
}

}  // namespace

absl::Status SessionGraph::Import(const tensorflow::GraphDef& def) {
  MutexLock lock(&mutex_);
  return graph_.Import(def);
}

absl::StatusOr<int64_t> SessionGraph::Extend(const tensorflow::GraphDef& def, int64_t expected_version) {
  MutexLock lock(&mutex_);
  if (version_ != expected_version) {
    return Aborted("Current version is ", version_, " but caller expected ", expected_version, ".");
  }
  for (const tensorflow::NodeDef& node : def.node()) {
    if (graph_.FindNode(node.name()) != nullptr) {
      return InvalidArgument("GraphDef argument to Extend includes node '", node.name(),
                             "', which was created by a previous call to Create or Extend in this session.");
    }
  }
  RETURN_IF_ERROR(graph_.Import(def));
  return ++version_;
}

absl::Status SessionGraph::Read(absl::FunctionRef<absl::Status(const Graph&)> read) const {
  MutexLock lock(&mutex_);
  return read(graph_);
}

// The whole graph decides where state lives, so new nodes are looked at before
// any signature that uses them is placed.
absl::StatusOr<Graph> SessionGraph::Prune(const Signature& signature, const PrepareOptions& options) {
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(Graph pruned, Extract(graph_, signature));
  states_.Update(graph_, PlacerFor(graph_, options.placer));
  return pruned;
}

absl::StatusOr<std::vector<Placed>> SessionGraph::PlaceNodes(Graph& graph, const PrepareOptions& options) const {
  MutexLock lock(&mutex_);
  PlacerOptions placer = PlacerFor(graph_, options.placer);
  placer.states = &states_;
  return Place(graph, placer);
}

absl::StatusOr<SessionGraph::PlacedGraph> SessionGraph::PlaceSignature(const Signature& signature,
                                                                       const PrepareOptions& options) {
  ASSIGN_OR_RETURN(Graph graph, Prune(signature, options));
  std::vector<std::string> targets = signature.targets;
  RETURN_IF_ERROR(InlineFunctions(graph, &targets));
  absl::StatusOr<std::vector<Placed>> placement = PlaceNodes(graph, options);
  if (!placement.ok() && !options.absent_tasks.empty()) {
    return Unavailable(absl::StrJoin(options.absent_tasks, ", "),
                       " has left the cluster: ", placement.status().message());
  }
  RETURN_IF_ERROR(placement.status());
  return PlacedGraph{std::move(graph), std::move(targets), *std::move(placement)};
}

absl::StatusOr<Graph> SessionGraph::Prepare(const Signature& signature, const PrepareOptions& options,
                                            Cancellation& cancellation) {
  ASSIGN_OR_RETURN(PlacedGraph placed, PlaceSignature(signature, options));
  if (options.log_device_placement) {
    for (const Placed& p : placed.placement) LOG(INFO) << DescribePlacement(p);
  }
  RETURN_IF_ERROR(Optimize(placed.graph, placed.targets, *options.folding_device, options.optimizer, &cancellation));
  RETURN_IF_ERROR(cancellation.status());
  return std::move(placed.graph);
}

absl::StatusOr<std::vector<Placed>> SessionGraph::ExplainPlacement(const Signature& signature,
                                                                   const PrepareOptions& options) {
  ASSIGN_OR_RETURN(PlacedGraph placed, PlaceSignature(signature, options));
  return std::move(placed.placement);
}

}  // namespace thalweg
