// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/graph_optimizer.h"

#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "thalweg/base/memory.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/scope.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/runtime/subgraph.h"

namespace thalweg {
namespace {

// The graph of a step, placed on the test device and optimized.
Graph Optimized(const Graph& graph, const Signature& signature, const GraphOptimizerOptions& options = {}) {
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

// Results that would make the graph larger are not folded.
TEST(Optimizer, LeavesLargeResults) {
  Graph graph;
  const Scope s = graph.root();
  s.WithOpName("small").Add("Fill", {Const(s, {100, 100}), Const(s, 1.f)});
  s.WithOpName("big").Add("Fill", {Const(s, {1000, 1000}), Const(s, 1.f)});
  const Signature signature{.fetches = {"small:0", "big:0"}};
  EXPECT_EQ(CountOps(Optimized(graph, signature), "Fill"), 1);
  EXPECT_EQ(CountOps(Optimized(graph, signature, {.max_new_bytes = 8 << 20}), "Fill"), 0);
  EXPECT_EQ(CountOps(Optimized(graph, signature, {.max_constant_bytes = 1000}), "Fill"), 2);
}

TEST(Optimizer, ResultsMayBeAsLargeAsWhatTheyAreMadeOf) {
  Graph graph;
  const Scope s = graph.root();
  Tensor values(kFloat, {100'000});
  std::iota(values.mutable_data<float>(), values.mutable_data<float>() + values.num_elements(), 0.f);
  Neg(s.WithOpName("dense"), Const(s, values));
  EXPECT_EQ(CountOps(Optimized(graph, {.fetches = {"dense:0"}}), "Neg"), 0);
  // One number that stands for all of them is small.
  tensorflow::NodeDef def;
  def.set_name("one");
  def.set_op("Const");
  SetAttr(def, "dtype", kFloat);
  tensorflow::TensorProto& value = *(*def.mutable_attr())["value"].mutable_tensor();
  value.set_dtype(tensorflow::DT_FLOAT);
  value.mutable_tensor_shape()->add_dim()->set_size(100'000);
  value.add_float_val(1);
  Neg(s.WithOpName("repeated"), Output(*graph.AddNode(def, {}, {})));
  EXPECT_EQ(CountOps(Optimized(graph, {.fetches = {"repeated:0"}}), "Neg"), 1);
}

TEST(Optimizer, DoesNotComputeWhatItWouldNotKeep) {
  Graph graph;
  const Scope s = graph.root();
  s.WithOpName("huge").Add("Fill", {Const(s, {1 << 14, 1 << 14}), Const(s, 1.f)});  // 1 GB
  s.WithOpName("range").Add("Range", {Const(s, 0), Const(s, 1 << 28), Const(s, 1)});
  const int64_t before = HostAllocator().Stats().peak_bytes;
  const Graph result = Optimized(graph, {.fetches = {"huge:0", "range:0"}});
  EXPECT_EQ(CountOps(result, "Fill") + CountOps(result, "Range"), 2);
  EXPECT_LT(HostAllocator().Stats().peak_bytes - before, 100 << 20);
}

TEST(Optimizer, FoldingEndsWhenItIsCancelled) {
  Graph graph;
  const Scope s = graph.root();
  Add(s, Const(s, 2.f), Const(s, 3.f));
  Cancellation cancellation;
  EXPECT_EQ(FoldConstants(graph, TestDevice(), {}, &cancellation).value(), 1);
  cancellation.Cancel(absl::CancelledError("enough"));
  EXPECT_EQ(FoldConstants(graph, TestDevice(), {}, &cancellation).status(), absl::CancelledError("enough"));
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

// As the initializer of all variables has them.
TEST(Optimizer, MergesManyNodesThatOneWaitsFor) {
  constexpr int kNodes = 20'000;
  Graph graph;
  const Scope s = graph.root();
  std::vector<Output> all;
  for (int i = 0; i < kNodes; ++i) all.push_back(Const(s, 1.f));
  NoOp(s.WithOpName("group").WithControlDependencies(all));
  const Graph result = Optimized(graph, {.targets = {"group"}});
  EXPECT_EQ(CountOps(result, "Const"), 1);
  EXPECT_EQ(result.FindNode("group")->control_inputs().size(), 1);
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
