// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/unusable_node.h"

#include <string>
#include <vector>

#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/similar_op.h"

namespace thalweg {

bool HasShapeError(const Node& node) { return node.schema() == nullptr && HasAttr(node.def(), kShapeError); }

absl::Status CheckShapes(const Graph& graph) {
  for (const auto& node : graph.nodes()) {
    if (HasShapeError(*node)) return WhyUnusable(*node);
  }
  return absl::OkStatus();
}

std::optional<tensorflow::GraphDef> ReplaceUnusable(const Graph& graph, const tensorflow::GraphDef& def) {
  if (CheckShapes(graph).ok()) return std::nullopt;
  tensorflow::GraphDef changed = def;
  for (tensorflow::NodeDef& node : *changed.mutable_node()) {
    const Node* const imported = graph.FindNode(node.name());
    if (imported == nullptr || !HasShapeError(*imported)) continue;
    std::vector<DType> inputs, outputs;
    for (const Output& input : imported->inputs()) inputs.push_back(RemoveRef(input.dtype()));
    for (const DType type : imported->output_types()) outputs.push_back(RemoveRef(type));
    node.set_op(kFailingOp);
    node.clear_attr();
    SetAttr(node, "message", std::string(WhyUnusable(*imported).message()));
    SetAttr(node, "Tin", inputs);
    SetAttr(node, "Tout", outputs);
  }
  return changed;
}

absl::Status WhyUnusable(const Node& node) {
  const absl::StatusOr<std::string> error = GetAttr<std::string>(node.def(), kShapeError);
  if (error.ok()) return InvalidArgument(*error);
  return NotFound("Op type not registered '", node.op(), "' (node '", node.name(), "')", SuggestSimilarOp(node.op()));
}

}  // namespace thalweg
