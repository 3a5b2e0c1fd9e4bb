// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/replicas/towers.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/client/session.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/train/optimizers/optimizers.h"

namespace thalweg {
namespace {

using testing::ElementsAre;

TEST(AverageGradients, OfTowersOnTwoDevices) {
  Graph graph;
  const Scope s = graph.root();
  const Var w = MakeVariable(s, "w", {2}, {.initializer = initializers::Zeros()});
  const Var table = MakeVariable(s, "table", {3, 1}, {.initializer = initializers::Zeros()});
  const Var once = MakeVariable(s, "once", {1}, {.initializer = initializers::Zeros()});
  const Var mixed = MakeVariable(s, "mixed", {2, 1}, {.initializer = initializers::Zeros()});
  MakeVariable(s, "unused", {1}, {.initializer = initializers::Zeros()});
  const auto optimizer = GradientDescent({.learning_rate = 1.0});
  std::vector<std::vector<GradientAndVar>> towers;
  for (int i = 0; i < 2; ++i) {
    const Scope tower = s.WithDevice(i == 0 ? "/device:CPU:0" : "/device:CPU:1");
    const Output factor = Const(tower, i == 0 ? 2.0f : 4.0f);
    Output loss = Add(tower, ReduceSum(tower, Mul(tower, w, factor)),
                      ReduceSum(tower, Mul(tower, Gather(tower, table, Const(tower, {i, 2})), factor)));
    if (i == 0) {
      loss = Add(tower, loss, ReduceSum(tower, Mul(tower, once, factor)));
      loss = Add(tower, loss, ReduceSum(tower, Gather(tower, mixed, Const(tower, {1}))));
    } else {
      loss = Add(tower, loss, ReduceSum(tower, mixed));
    }
    towers.push_back(optimizer->ComputeGradients(tower, loss));
  }
  const std::vector<GradientAndVar> mean = AverageGradients(s, towers);
  ASSERT_TRUE(s.ok()) << s.status();
  ASSERT_EQ(mean.size(), 5u);
  EXPECT_TRUE(mean[1].gradient.sparse());
  EXPECT_FALSE(mean[4].gradient);
  const Output train = optimizer->ApplyGradients(s, mean);
  const Output init = InitializeVariables(s);
  auto session = Session::Create(graph, {.cpu_devices = 2});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({init}).ok());
  ASSERT_TRUE((*session)->Run({train}).ok());
  const auto out = (*session)->Run({w.read, table.read, once.read, mixed.read});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_THAT((*out)[0].flat<float>(), ElementsAre(-3, -3));
  EXPECT_THAT((*out)[1].flat<float>(), ElementsAre(-1, -2, -3));
  EXPECT_THAT((*out)[2].flat<float>(), ElementsAre(-1)) << "missing in one tower, where it counts as 0";
  EXPECT_THAT((*out)[3].flat<float>(), ElementsAre(-0.5, -1));
}

TEST(AverageGradients, OfDifferentVariables) {
  Graph graph;
  const Scope s = graph.root();
  const Var a = MakeVariable(s, "a", Shape({1})), b = MakeVariable(s, "b", Shape({1}));
  AverageGradients(s, {{{Gradient(a.read), a}}, {{Gradient(b.read), b}}});
  EXPECT_THAT(s.status().message(), testing::HasSubstr("variable 0 is 'b' in tower 1 and 'a' in tower 0"));
  Graph empty;
  AverageGradients(empty.root(), {});
  EXPECT_THAT(empty.build_status().message(), testing::HasSubstr("no towers"));
}

}  // namespace
}  // namespace thalweg
