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
    if (is_new) frames_->frames.push_back({.id = it->second, .parent = parent, .name = std::move(name)});
    return it->second;
  }

 private:
  Frames* frames_;
  absl::flat_hash_map<std::pair<int, std::string>, int> ids_;
};

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
      if (IsNextIteration(*from) && IsMerge(*node)) return absl::OkStatus();  // not seen yet
      const int frame = output_frame[from->id()];
      if (own == -1) own = frame;
      if (own == frame) return absl::OkStatus();
      return InvalidArgument("{{node ", node->name(), "}} has inputs from different frames: '", result.frames[own].name,
                             "' and, through '", from->name(), "', '", result.frames[frame].name, "'");
    };
    for (const Output& input : node->inputs()) RETURN_IF_ERROR(join(input.node));
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
  return result;
}

}  // namespace thalweg
