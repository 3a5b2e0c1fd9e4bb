// SPDX-License-Identifier: Apache-2.0
// Graphs written as lines, for tests of Graph.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "thalweg/graph/graph.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/proto/graph.pb.h"

namespace thalweg {

// A GraphDef of one node per line, op name(inputs): "Identity b(a, ^c)". `dtype` is the type of everything.
tensorflow::GraphDef Lines(const std::vector<std::string>& lines, DType dtype = kFloat);

std::vector<std::string> NamesOf(const std::vector<Node*>& nodes);

// With the tests' ops and a graph.
class GraphTest : public testing::Test {
 protected:
  GraphTest() { RegisterTestOps(); }
  absl::Status Import(const std::vector<std::string>& lines);
  Graph graph_;
};

}  // namespace thalweg
