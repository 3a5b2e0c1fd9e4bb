#include "thalweg/runtime/optimizer.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "thalweg/graph/scope.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/runtime/subgraph.h"

namespace thalweg {
namespace {

// What a step needs of `graph`, placed on the test device and optimized.
Graph Optimized(const Graph& graph, const Signature& signature, const OptimizerOptions& options = {}) {
  Graph result = *Extract(graph, signature);
  for (const auto& node : result.nodes()) node->set_device(TestDevice().name());
  const absl::Status status = Optimize(result, signature.targets, TestDevice(), options);
  EXPECT_TRUE(status.ok()) << status;
  return result;
}

int CountOps(const Graph& graph, const std::string& op) {
  int count = 0;
  for (const auto& node : graph.nodes()) count += node->op() == op;
  return count;
}

TEST(Optimizer, FoldsConstants) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s.WithOpName("x"), kFloat, {});
  const Output folded = Mul(s, Add(s, Const(s, 2.f), Const(s, 3.f)), Const(s, 4.f));
  Add(s.WithOpName("y"), x, folded);
  const Graph result = Optimized(graph, {.feeds = {"x:0"}, .fetches = {"y:0"}});
  EXPECT_EQ(CountOps(result, "Mul"), 0);
  EXPECT_EQ(CountOps(result, "Const"), 1);
  const Node* y = result.FindNode("y");
  EXPECT_EQ(GetAttr<Tensor>(y->input(1).node->def(), "value")->scalar<float>(), 20);
}

TEST(Optimizer, LeavesWhatFailsToTheStep) {
  Graph graph;
  const Scope s = graph.root();
  s.WithOpName("bad").Add("FloorDiv", {Const(s, 1), Const(s, 0)});
  const Graph result = Optimized(graph, {.fetches = {"bad:0"}});
  EXPECT_EQ(CountOps(result, "FloorDiv"), 1);
}

TEST(Optimizer, LeavesLargeResults) {
  Graph graph;
  const Scope s = graph.root();
  s.WithOpName("big").Add("Fill", {Const(s, {1000, 1000}), Const(s, 1.f)});
  EXPECT_EQ(CountOps(Optimized(graph, {.fetches = {"big:0"}}), "Fill"), 0);
  EXPECT_EQ(CountOps(Optimized(graph, {.fetches = {"big:0"}}, {.max_constant_bytes = 1000}), "Fill"), 1);
}

TEST(Optimizer, NeverFoldsOrMergesWhatIsRandom) {
  Graph graph;
  const Scope s = graph.root();
  const auto random = [&] { return s.Add("RandomUniform", {Const(s, {2})}, {{"dtype", kFloat}}); };
  Sub(s.WithOpName("y"), random(), random());
  EXPECT_EQ(CountOps(Optimized(graph, {.fetches = {"y:0"}}), "RandomUniform"), 2);
}

TEST(Optimizer, MergesCommonSubexpressions) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s.WithOpName("x"), kFloat, {});
  const Output y = Placeholder(s.WithOpName("y"), kFloat, {});
  // Add does not mind the order, Sub does.
  const Output a = Mul(s, Mul(s, x, y), Mul(s, y, x));
  const Output b = Add(s, Sub(s, x, y), Sub(s, y, x));
  Add(s.WithOpName("z"), a, b);
  const Graph result = Optimized(graph, {.feeds = {"x:0", "y:0"}, .fetches = {"z:0"}});
  EXPECT_EQ(CountOps(result, "Mul"), 2);
  EXPECT_EQ(CountOps(result, "Sub"), 2);
}

TEST(Optimizer, AttributesTellNodesApart) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s.WithOpName("x"), kFloat, {2, 2});
  const Output a = s.Add("MatMul", {x, x}, {{"transpose_a", true}});
  const Output b = s.Add("MatMul", {x, x}, {{"transpose_b", true}});
  Add(s.WithOpName("z"), a, b);
  EXPECT_EQ(CountOps(Optimized(graph, {.feeds = {"x:0"}, .fetches = {"z:0"}}), "MatMul"), 2);
}

TEST(Subgraph, CutsAtFeedsAndKeepsControlInputs) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s.WithOpName("x"), kFloat, {});
  const Output y = Neg(s.WithOpName("y"), x);
  const Output side = NoOp(s.WithOpName("side").WithControlDependencies({y}));
  Neg(s.WithOpName("z").WithControlDependencies({side}), y);
  Neg(s.WithOpName("unused"), y);
  const auto result = Extract(graph, {.feeds = {"y:0"}, .fetches = {"z:0"}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->FindNode("x"), nullptr);
  EXPECT_EQ(result->FindNode("y"), nullptr);
  EXPECT_EQ(result->FindNode("unused"), nullptr);
  const Node* z = result->FindNode("z");
  ASSERT_NE(z, nullptr);
  EXPECT_EQ(z->input(0).node->op(), "_Arg");
  ASSERT_EQ(z->control_inputs().size(), 1);
  EXPECT_EQ(z->control_inputs()[0]->control_inputs()[0]->op(), "_Arg");
  EXPECT_EQ(CountOps(*result, "_Retval"), 1);
}

}  // namespace
}  // namespace thalweg
