// SPDX-License-Identifier: Apache-2.0
// Decides on which device every node runs, and can say why.
//
// A node goes where its device string says, merged with those of the nodes it
// must be together with: colocation ("_class" = "loc:@other"), variables and
// what uses them by reference, resources and what uses their handles. What is
// left open goes to the default device. With soft placement, a device that is
// not there, or has no kernel for the op, is replaced by one that can.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "thalweg/graph/device_name.h"
#include "thalweg/graph/graph.h"
#include "thalweg/graph/placement.h"

namespace thalweg {

// A device as the placer sees it: it may be in another task.
struct PlacementDevice {
  DeviceName name;  // full
};

class StatePlacement;

struct PlacerOptions {
  std::vector<PlacementDevice> devices;  // in order of preference
  std::string default_device;            // full name; "" is the first
  bool allow_soft_placement = false;
  const StatePlacement* states = nullptr;  // borrowed; what is decided already
};

// Sets the device of every node to a full name. INVALID_ARGUMENT, naming the
// node, what it asked for and what there is, if a node has no place.
absl::StatusOr<std::vector<Placed>> Place(Graph& graph, const PlacerOptions& options);

// Where the nodes of a session's graph are that keep state. The whole graph
// decides, not what a step needs of it: all steps find a variable in one place,
// though only some have the node that asks for a device. And they stay there when
// the graph grows.
class StatePlacement {
 public:
  struct Decision {
    std::string op;
    DeviceName device;
    std::string why;  // what was asked for; "" if nothing
  };

  // Decides about the nodes of `graph` that are new. Those that have no place are
  // left to the steps that need them, which say so.
  void Update(const Graph& graph, const PlacerOptions& options);
  const Decision* Find(const Node& node) const;  // nullptr if there is none

 private:
  int known_nodes_ = 0;
  absl::flat_hash_map<std::string, Decision> decisions_;  // by node
};

}  // namespace thalweg
