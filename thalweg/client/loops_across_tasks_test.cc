// SPDX-License-Identifier: Apache-2.0
// Loops whose nodes are on several tasks.
#include <functional>

#include "gtest/gtest.h"
#include "thalweg/client/cluster_testlib.h"
#include "thalweg/client/session.h"
#include "thalweg/graph/gradient.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/while.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"

namespace thalweg {
namespace {

// body(body(... x)), n times.
Output Repeat(const Scope& scope, Output n, Output x, const std::function<Output(const Scope&, Output)>& body) {
  using Values = std::vector<Output>;
  return While(
      scope, {Const(scope, 0), x}, [&](const Scope& s, const Values& v) { return Less(s, v[0], n); },
      [&](const Scope& s, const Values& v) {
        return Values{Add(s, v[0], Const(s, 1)), body(s, v[1])};
      })[1];
}

TEST(WhileGradient, OfALoopOverSeveralTasks) {
  TestCluster cluster({{"worker", 2}});
  Graph graph;
  const Scope s = graph.root().WithDevice("/job:worker/task:0");
  const Output x = Placeholder(s, kFloat, {2, 3}), n = Placeholder(s, kInt32, Shape());
  const Output w = Const(s.WithDevice("/job:worker/task:1"), TestValues(kFloat, {3, 3}));
  std::vector<Output> all;
  for (const char* other : {"/job:worker/task:1", "/job:worker/task:0"}) {
    const Output y = Repeat(s, n, x, [&](const Scope& in, Output v) {
      return Sin(in, Tanh(in.WithDevice(other), MatMul(in.WithDevice(other), v, w)));
    });
    all.push_back(y);
    for (const Gradient& g : Gradients(s, {y}, {x, w})) all.push_back(g.values);
  }
  ASSERT_OK(s.status());
  // The saved values of an iteration stay on the task that computed them.
  for (const auto& node : graph.nodes()) {
    if (node->op() != "TensorListPushBack" && node->op() != "TensorListPopBack") continue;
    EXPECT_EQ(node->device(), node->input(0).node->device()) << node->name();
    if (node->op() == "TensorListPopBack") continue;
    EXPECT_EQ(node->device(), node->input(1).node->device()) << node->name();
  }
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target({"worker", 0})}));
  for (const int times : {3, 0, 1}) {
    ASSERT_OK_AND_ASSIGN(
        const auto out, session->Run({all.begin(), all.end()},
                                     {{x, TestValues(kFloat, {2, 3}, -1, 1, 2)}, {n, Tensor::Scalar<int32_t>(times)}}));
    for (size_t i = 0; i < 3; ++i) ExpectTensor(out[i], out[i + 3]);
  }
}

}  // namespace
}  // namespace thalweg
