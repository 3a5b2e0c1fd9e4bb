// Cuts a placed graph into one part per task. What crosses becomes a pair of
// _Send and _Recv; what the caller gives and gets becomes a _Recv or _Send that
// the caller's end completes ("client_terminated").
//
// Where a node reads a variable of another task by reference, the value is that
// of the time when the other inputs of the node are there, as in TensorFlow: with
// control_dependencies, the read comes after what they name. Such a transfer has
// its own send and receive for every reader.
//
// A loop that spans tasks gets, in every task, a loop of its own that follows the
// condition, so that its receives run once per iteration, whatever waits for them:
//
//   go = Enter(const)   again = Merge(go, next)   next = NextIteration(Switch(again, cond):1)
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/graph/graph.h"
#include "thalweg/proto/graph.pb.h"
#include "thalweg/runtime/subgraph.h"

namespace thalweg {

struct GraphPart {
  std::string task;  // "/job:ps/replica:0/task:1"
  tensorflow::GraphDef graph;
  // Feeds and fetches that enter and leave here: index in the signature, and
  // rendezvous key.
  std::vector<std::pair<int, std::string>> feeds;
  std::vector<std::pair<int, std::string>> fetches;
};

struct PartitionOptions {
  // Of every device; it is part of the keys, so that what is meant for a task
  // never reaches the one that took its place.
  std::function<uint64_t(const std::string& device)> incarnation;
  // True if tensors between these tasks are pushed by the one that makes them, as
  // soon as they are there; else the one that wants them asks for them.
  std::function<bool(const std::string& from_task, const std::string& to_task)> pushes;
  // Of the names of sends and receives. TensorFlow's tasks keep the kernels of a
  // session by name, so that two graphs for one of them must not have the same
  // name for different transfers.
  std::string suffix;
};

// `graph` is an Extract() of `signature`, placed. Feeds that one task uses enter
// there.
absl::StatusOr<std::vector<GraphPart>> Partition(Graph graph, const Signature& signature,
                                                 const PartitionOptions& options);

}  // namespace thalweg
