// SPDX-License-Identifier: Apache-2.0
// Exports a graph as a MetaGraphDef, which TensorFlow's programs can import.
#pragma once

#include <string>

#include "thalweg/graph/graph.h"
#include "thalweg/proto/saver.pb.h"

namespace thalweg {

// A serialized MetaGraphDef: the graph, its variables and its saver.
std::string MetaGraph(const Graph& graph, const tensorflow::SaverDef& saver);

}  // namespace thalweg
