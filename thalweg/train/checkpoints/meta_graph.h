// A graph as TensorFlow's programs take it up: a MetaGraphDef.
#pragma once

#include <string>

#include "thalweg/graph/graph.h"
#include "thalweg/proto/saver.pb.h"

namespace thalweg {

// The bytes of a MetaGraphDef: the graph, its variables and what saves them.
std::string MetaGraph(const Graph& graph, const tensorflow::SaverDef& saver);

}  // namespace thalweg
