// Which loop each node belongs to. A loop is a *frame*: its nodes lie between
// Enter nodes that name it and Exit nodes. Frames nest.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/graph/graph.h"

namespace thalweg {

struct Frame {
  int id = 0;  // index into Frames::frames; 0 is the top level
  int parent = -1;
  int depth = 0;  // of the top level 0
  std::string name;
  std::vector<Node*> enters;  // they run in the parent, their outputs live here
  std::vector<Node*> exits;   // they belong here, their outputs live in the parent
  std::vector<Node*> next_iterations;
};

struct Frames {
  std::vector<Frame> frames;    // parents before children
  std::vector<int> of_node;     // by node id: the frame whose iteration runs the node (an Enter: the parent)
  std::vector<int> of_outputs;  // by node id: where its outputs live (of an Enter: the loop; of an Exit: the parent)
};

// So deep may frames nest: what compiles and runs them goes down with them.
inline constexpr int kMaxFrameDepth = 100;

// INVALID_ARGUMENT if a node has inputs from different frames, or frames nest
// deeper than kMaxFrameDepth.
absl::StatusOr<Frames> FindFrames(const Graph& graph, const std::vector<Node*>& topological_order);

}  // namespace thalweg
