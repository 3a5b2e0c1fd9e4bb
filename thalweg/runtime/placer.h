// SPDX-License-Identifier: Apache-2.0
// Decides on which device every node runs, and can say why.
//
// A node runs on the device that its device string names, merged with the strings of all nodes it must share a
// device with: nodes that it is colocated with ("_class" = "loc:@other"), a variable and the nodes that use it by
// reference, a resource and the nodes that use its handle. The default device completes a partial name. With soft
// placement, the placer replaces a device that does not exist, or has no kernel for the op, by one that can run it.
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
  const StatePlacement* states = nullptr;  // borrowed; the devices that are decided already
};

// Sets the device of every node to a full name. INVALID_ARGUMENT, naming the
// node, what it asked for and what there is, if a node has no place.
absl::StatusOr<std::vector<Placed>> Place(Graph& graph, const PlacerOptions& options);

// The devices of the nodes of a session's graph that keep state. The whole graph decides, not the part that a step
// needs: only some steps contain the node that requests a device, but all steps must find the variable in the same
// place. State stays where it is when the graph grows.
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
