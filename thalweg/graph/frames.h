// SPDX-License-Identifier: Apache-2.0
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
  int depth = 0;  // the top level has depth 0
  std::string name;
  std::vector<Node*> enters;  // run in the parent; their outputs belong to this frame
  std::vector<Node*> exits;   // run in this frame; their outputs belong to the parent
  std::vector<Node*> next_iterations;
};

struct Frames {
  std::vector<Frame> frames;    // parents before children
  std::vector<int> of_node;     // by node id: the frame whose iteration runs the node (for an Enter, the parent)
  std::vector<int> of_outputs;  // by node id: the frame of its outputs (of an Enter the loop, of an Exit the parent)
};

// Maximum nesting depth of frames. Compiling and running a frame recurses into the
// frames inside it, so the depth bounds the use of the stack.
inline constexpr int kMaxFrameDepth = 100;

// Returns INVALID_ARGUMENT if a node has inputs from different frames, or if frames
// nest deeper than kMaxFrameDepth.
absl::StatusOr<Frames> FindFrames(const Graph& graph, const std::vector<Node*>& topological_order);

}  // namespace thalweg
