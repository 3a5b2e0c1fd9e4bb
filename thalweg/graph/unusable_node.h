// SPDX-License-Identifier: Apache-2.0
// Nodes that cannot run, because their op type is unknown or the shapes of their inputs
// do not fit. An imported graph keeps such nodes, without a schema, so that only the
// steps that need them fail.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "thalweg/graph/graph.h"

namespace thalweg {

// The attribute with the reason why the shapes of a node do not fit.
inline constexpr char kShapeError[] = "_shape_error";

bool HasShapeError(const Node& node);

// Returns the first shape error. For graphs in which every node is needed.
absl::Status CheckShapes(const Graph& graph);

// An op that fails with the attribute "message" when it runs.
inline constexpr char kFailingOp[] = "_ShapeError";
// If `graph`, which was imported from `def`, has nodes with shape errors: `def` with nodes in their place that fail
// when they run. Constant folding can find such errors in a branch that the step does not take.
std::optional<tensorflow::GraphDef> ReplaceUnusable(const Graph& graph, const tensorflow::GraphDef& def);

// The error of a step that needs the node: NOT_FOUND or INVALID_ARGUMENT. REQUIRES: the
// node has no schema.
absl::Status WhyUnusable(const Node& node);

}  // namespace thalweg
