// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/graph_lines_testlib.h"

#include <algorithm>

#include "thalweg/graph/attr.h"

namespace thalweg {

tensorflow::GraphDef Lines(const std::vector<std::string>& lines, DType dtype) {
  tensorflow::GraphDef def;
  for (const std::string& line : lines) {
    tensorflow::NodeDef* node = def.add_node();
    const size_t space = line.find(' '), open = line.find('('), close = line.find(')');
    node->set_op(line.substr(0, space));
    node->set_name(line.substr(space + 1, open - space - 1));
    for (size_t at = open + 1; at < close;) {
      const size_t end = std::min(line.find(", ", at), close);
      node->add_input(line.substr(at, end - at));
      at = end + 2;
    }
    if (node->op() == "Placeholder" || node->op() == "VariableV2") SetAttr(*node, "dtype", dtype);
    if (node->op() == "VariableV2") SetAttr(*node, "shape", Shape({2}));
    for (const char* op :
         {"Identity", "Mul", "Merge", "Switch", "Enter", "Exit", "NextIteration", "Assign", "TwoOutputs"}) {
      if (node->op() == op) SetAttr(*node, "T", dtype);
    }
    if (node->op() == "Merge") SetAttr(*node, "N", 2);
    if (node->op() == "Enter") SetAttr(*node, "frame_name", "loop");
  }
  return def;
}

std::vector<std::string> NamesOf(const std::vector<Node*>& nodes) {
  std::vector<std::string> names;
  for (const Node* node : nodes) names.push_back(node->name());
  return names;
}

absl::Status GraphTest::Import(const std::vector<std::string>& lines) { return graph_.Import(Lines(lines)); }

}  // namespace thalweg
