// SPDX-License-Identifier: Apache-2.0
// Cuts a placed graph into one partition per task. An edge between tasks becomes a pair
// of _Send and _Recv. A feed becomes a _Recv and a fetch a _Send whose other end is the
// client ("client_terminated").
//
// A node that reads a variable of another task by reference gets the value at the time
// when its other inputs are ready, as in TensorFlow: with control_dependencies, the read
// comes after the nodes that they name. Such a transfer has its own send and receive for
// every reader.
//
// If a loop spans tasks, every task gets a loop of its own that follows the condition,
// so that its receives run once per iteration:
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
  // The feeds and fetches of this partition: index in the signature, and rendezvous key.
  std::vector<std::pair<int, std::string>> feeds;
  std::vector<std::pair<int, std::string>> fetches;
};

struct PartitionOptions {
  // The incarnation of a device. It is part of the rendezvous keys, so that a tensor for
  // a task never reaches the process that replaced it.
  std::function<uint64_t(const std::string& device)> incarnation;
  // True if the sender pushes tensors between these tasks as soon as they are computed;
  // otherwise the receiver requests them.
  std::function<bool(const std::string& from_task, const std::string& to_task)> pushes;
  // Suffix of the names of sends and receives. TensorFlow's tasks cache the kernels of a
  // session by node name, so two graphs for one task must not use the same name for
  // different transfers.
  std::string suffix;
};

// `graph` is the placed result of Extract() for `signature`. A feed that only one task
// uses enters at that task.
absl::StatusOr<std::vector<GraphPart>> Partition(Graph graph, const Signature& signature,
                                                 const PartitionOptions& options);

}  // namespace thalweg
