// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/optimizers/delay_compensation.h"

#include <cmath>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/client/session.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/train/optimizers/optimizers.h"

namespace thalweg {
namespace {

constexpr float kRate = 0.1f;

// w -= kRate g, where w was 1 when the loss (w - 3)^2 was computed and is 2 when
// its gradient, -4, arrives; for a vector and for rows of a table.
struct Delayed {
  explicit Delayed(const DelayCompensationOptions& options)
      : optimizer(DelayCompensation(GradientDescent({.learning_rate = kRate}), options)) {
    const Scope s = graph.root();
    const Var w = MakeVariable(s, "w", {2}, {.initializer = initializers::Constant(1)});
    const Var table = MakeVariable(s, "table", {3, 1}, {.initializer = initializers::Constant(1)});
    // Says that it has read, and waits.
    const Output has_read = FIFOQueue(s, {kFloat}, {PartialShape(Shape())});
    const Output go_on = FIFOQueue(s, {kFloat}, {PartialShape(Shape())});
    const Output rows = Gather(s, table, Const(s, {1, 0}));
    const Output said = QueueEnqueue(s.WithControlDependencies({w.read, rows, table.read}), has_read, {Const(s, 0.0f)});
    const Output three = QueueDequeue(s.WithControlDependencies({said}), go_on, {kFloat})[0];
    const Output loss = Add(s, ReduceSum(s, Square(s, Sub(s, w, three))), ReduceSum(s, Square(s, Sub(s, rows, three))));
    const Output train = optimizer->Minimize(s, loss);
    const Output other =
        Group(s, {Assign(s, w.ref, Const(s, {2.0f, 2.0f})), Assign(s, table.ref, Const(s, {{2.0f}, {2.0f}, {2.0f}}))});
    const Output await = QueueDequeue(s, has_read, {kFloat})[0];
    const Output wake = QueueEnqueue(s, go_on, {Const(s, 3.0f)});
    const Output init = InitializeVariables(s);
    EXPECT_TRUE(s.ok()) << s.status();
    auto session = Session::Create(graph);
    EXPECT_TRUE(session.ok()) << session.status();
    const auto run = [&](Output o) {
      const auto out = (*session)->Run({o}, {}, {.timeout = absl::Seconds(60)});
      EXPECT_TRUE(out.ok()) << out.status();
      return out.ok() ? (*out)[0] : Tensor();
    };
    run(init);
    std::thread worker([&] { run(train); });
    run(await);
    run(other);
    run(wake);
    worker.join();
    dense = run(w).data<float>()[1];
    const Tensor rows_after = run(table);
    for (const float x : rows_after.flat<float>()) sparse.push_back(x);
  }

  Graph graph;
  std::unique_ptr<Optimizer> optimizer;
  float dense = 0;
  std::vector<float> sparse;
};

TEST(DelayCompensation, OfAConstant) {
  const Delayed trial({.lambda = 0.04});
  const float expected = 2 - kRate * (-4 + 0.04f * 16 * (2 - 1));
  EXPECT_NEAR(trial.dense, expected, 1e-6);
  EXPECT_THAT(trial.sparse,
              testing::ElementsAre(testing::FloatNear(expected, 1e-6), testing::FloatNear(expected, 1e-6), 2));
}

TEST(DelayCompensation, Adaptive) {
  Delayed trial({.adaptive = true, .lambda = 2, .mean_decay = 0.95});
  const float mean_square = 0.05f * 16;
  const float expected = 2 - kRate * (-4 + 2 / std::sqrt(mean_square + 1e-7f) * 16 * (2 - 1));
  EXPECT_NEAR(trial.dense, expected, 1e-5);
  EXPECT_THAT(trial.sparse,
              testing::ElementsAre(testing::FloatNear(expected, 1e-5), testing::FloatNear(expected, 1e-5), 2));
  EXPECT_TRUE(GetVariable(trial.graph, "table/DelayCompensation"));
}

TEST(DelayCompensation, NotOfRows) {
  const Delayed trial({.lambda = 0.04, .sparse = false});
  EXPECT_THAT(trial.sparse, testing::ElementsAre(testing::FloatNear(2.4f, 1e-6), testing::FloatNear(2.4f, 1e-6), 2));
}

}  // namespace
}  // namespace thalweg
