// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/frames.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"

namespace thalweg {
namespace {

absl::StatusOr<Frames> FramesOf(const Graph& graph) {
  absl::StatusOr<std::vector<Node*>> order = TopologicalOrder(graph);
  if (!order.ok()) return order.status();
  return FindFrames(graph, *order);
}

Output One(const Scope& s) {
  RegisterTestOps();
  return Constant(s, Tensor::Scalar<float>(1));
}

Output Enter(const Scope& s, const char* frame, Output x) {
  return s.Add("Enter", {x}, {{"frame_name", frame}, {"is_constant", true}});
}

TEST(Frames, NestAndEnd) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = One(s);
  const Output outer = Enter(s, "outer", x);
  const Output inner = Enter(s, "inner", outer);
  const Output y = s.Add("Identity", {inner});
  const Output back = s.Add("Exit", {y});
  const Output z = s.Add("Mul", {back, outer});
  const Output out = s.Add("Exit", {z});
  const Output end = s.Add("Identity", {out});
  ASSERT_TRUE(s.ok()) << s.status();
  const auto frames = FramesOf(graph);
  ASSERT_TRUE(frames.ok()) << frames.status();
  ASSERT_EQ(frames->frames.size(), 3);
  EXPECT_EQ(frames->frames[1].name, "outer");
  EXPECT_EQ(frames->frames[2].name, "inner");
  EXPECT_EQ(frames->frames[2].parent, 1);
  EXPECT_EQ(frames->of_node[x.node->id()], 0);
  EXPECT_EQ(frames->of_node[inner.node->id()], 1);
  EXPECT_EQ(frames->of_outputs[inner.node->id()], 2);
  EXPECT_EQ(frames->of_node[y.node->id()], 2);
  EXPECT_EQ(frames->of_outputs[back.node->id()], 1);
  EXPECT_EQ(frames->of_node[z.node->id()], 1);
  EXPECT_EQ(frames->of_node[end.node->id()], 0);
}

TEST(Frames, InputsFromDifferentFramesAreAnError) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = One(s);
  s.WithOpName("mixed").Add("Mul", {Enter(s, "loop", x), x});
  const absl::Status status = FramesOf(graph).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("mixed"));
}

TEST(Frames, NestSoDeep) {
  Graph graph;
  const Scope s = graph.root();
  Output x = One(s);
  for (int i = 1; i <= kMaxFrameDepth; ++i) x = Enter(s, "loop", x);
  EXPECT_EQ(FramesOf(graph)->frames.back().depth, kMaxFrameDepth);
  Enter(s.WithOpName("deep"), "loop", x);
  EXPECT_THAT(FramesOf(graph), Fails(absl::StatusCode::kInvalidArgument,
                                     "{{node deep}}: loop 'loop' lies in 100 others, expected at most 99"));
}

TEST(Frames, AnExitNeedsALoop) {
  Graph graph;
  const Scope s = graph.root();
  s.Add("Exit", {One(s)});
  EXPECT_EQ(FramesOf(graph).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace thalweg
