#include "thalweg/runtime/planner.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/runtime/local_session.h"

namespace thalweg {
namespace {

// An Identity has no code: its consumers depend on what it is one of.
TEST(Planner, AChainWithoutCodeMayBeLong) {
  constexpr int kNodes = 200'000;
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s.WithOpName("x"), kFloat, {});
  Output y = Neg(s, x);
  for (int i = 0; i < kNodes; ++i) {
    tensorflow::NodeDef def;
    def.set_name(absl::StrCat("id", i));
    def.set_op("Identity");
    SetAttr(def, "T", kFloat);
    ASSERT_OK_AND_ASSIGN(Node * node, graph.AddNode(std::move(def), {y}, {}));
    y = node->out();
  }
  Neg(s.WithOpName("y"), y);
  LocalSession session({});
  ASSERT_OK(session.Extend(graph.Export()));
  ASSERT_OK_AND_ASSIGN(const auto step, session.Prepare({.feeds = {"x:0"}, .fetches = {"y:0"}}));
  std::vector<Tensor> results;
  ASSERT_OK(session.Run(step, {}, {Tensor::Scalar<float>(3)}, &results, nullptr));
  EXPECT_EQ(results[0].scalar<float>(), 3);
}

}  // namespace
}  // namespace thalweg
