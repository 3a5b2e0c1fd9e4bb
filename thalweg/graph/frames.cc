// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/frames.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"

namespace thalweg {

namespace {

// The frame that an Enter opens, made on first sight: by its name within its
// parent.
class FrameTable {
 public:
  explicit FrameTable(Frames* frames) : frames_(frames) {}
  absl::StatusOr<int> Child(const Node& enter, int parent) {
    ASSIGN_OR_RETURN(std::string name, GetAttr<std::string>(enter.def(), "frame_name"));
    const auto [it, is_new] = ids_.try_emplace(std::pair(parent, name), static_cast<int>(frames_->frames.size()));
    if (!is_new) return it->second;
    const int depth = frames_->frames[parent].depth + 1;
    if (depth > kMaxFrameDepth) {
      return InvalidArgument("{{node ", enter.name(), "}}: loop '", name, "' lies in ", depth - 1,
                             " others, expected at most ", kMaxFrameDepth - 1);
    }
    frames_->frames.push_back({.id = it->second, .parent = parent, .depth = depth, .name = std::move(name)});
    return it->second;
  }

 private:
  Frames* frames_;
  absl::flat_hash_map<std::pair<int, std::string>, int> ids_;
};

bool ComesRound(const Output& input, const Node& node) { return IsNextIteration(*input.node) && IsMerge(node); }

absl::Status MixedFrames(const Frames& frames, const Node& node, int own, const Node& from) {
  return InvalidArgument("{{node ", node.name(), "}} has inputs from different frames: '", frames.frames[own].name,
                         "' and, through '", from.name(), "', '", frames.frames[frames.of_outputs[from.id()]].name,
                         "'");
}

}  // namespace

absl::StatusOr<Frames> FindFrames(const Graph& graph, const std::vector<Node*>& order) {
  Frames result;
  result.frames.emplace_back();
  result.of_node.assign(graph.num_nodes(), 0);
  result.of_outputs.assign(graph.num_nodes(), 0);
  std::vector<int>& output_frame = result.of_outputs;
  FrameTable table(&result);
  for (Node* node : order) {
    int own = -1;
    const auto join = [&](const Node* from) -> absl::Status {
      const int frame = output_frame[from->id()];
      if (own == -1) own = frame;
      if (own == frame) return absl::OkStatus();
      return MixedFrames(result, *node, own, *from);
    };
    for (const Output& input : node->inputs()) {
      if (ComesRound(input, *node)) continue;  // not seen yet
      RETURN_IF_ERROR(join(input.node));
    }
    for (const Node* control : node->control_inputs()) RETURN_IF_ERROR(join(control));
    own = std::max(own, 0);
    result.of_node[node->id()] = own;
    output_frame[node->id()] = own;
    if (IsEnter(*node)) {
      ASSIGN_OR_RETURN(const int child, table.Child(*node, own));
      result.frames[child].enters.push_back(node);
      output_frame[node->id()] = child;
    } else if (IsExit(*node)) {
      if (own == 0) return InvalidArgument("{{node ", node->name(), "}}: an Exit outside of any loop");
      result.frames[own].exits.push_back(node);
      output_frame[node->id()] = result.frames[own].parent;
    } else if (IsNextIteration(*node)) {
      if (own == 0) return InvalidArgument("{{node ", node->name(), "}}: a NextIteration outside of any loop");
      result.frames[own].next_iterations.push_back(node);
    }
  }
  for (const Node* node : order) {
    const int own = result.of_node[node->id()];
    for (const Output& input : node->inputs()) {
      if (ComesRound(input, *node) && output_frame[input.node->id()] != own)
        return MixedFrames(result, *node, own, *input.node);
    }
  }
  return result;
}

}  // namespace thalweg
