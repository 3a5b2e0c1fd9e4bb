// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/unusable_node.h"

#include <string>

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

absl::Status WhyUnusable(const Node& node) {
  const absl::StatusOr<std::string> error = GetAttr<std::string>(node.def(), kShapeError);
  if (error.ok()) return InvalidArgument(*error);
  return NotFound("Op type not registered '", node.op(), "' (node '", node.name(), "')", SuggestSimilarOp(node.op()));
}

}  // namespace thalweg
