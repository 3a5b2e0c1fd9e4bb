// Nodes that no step can run: their op type is not known here, or the shapes of
// their inputs do not fit. A graph that is imported keeps them, without a schema, so
// that they concern only the steps that need them.
#pragma once

#include "absl/status/status.h"
#include "thalweg/graph/graph.h"

namespace thalweg {

// The attribute that says why the shapes of a node do not fit.
inline constexpr char kShapeError[] = "_shape_error";

bool HasShapeError(const Node& node);

// The first shape error: for graphs of which every node is needed.
absl::Status CheckShapes(const Graph& graph);

// Why a step that needs the node fails: NOT_FOUND or INVALID_ARGUMENT. REQUIRES: it
// has no schema.
absl::Status WhyUnusable(const Node& node);

}  // namespace thalweg
