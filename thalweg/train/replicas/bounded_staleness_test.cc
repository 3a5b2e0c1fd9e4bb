// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/replicas/bounded_staleness.h"

#include <thread>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/train/optimizers/optimizers.h"
#include "thalweg/train/replicas/replica_identity_testlib.h"

namespace thalweg {
namespace {

TestReplica::MakeOptimizer Bounded(const BoundedStalenessOptions& options) {
  return [=] { return BoundedStaleness(GradientDescent({.learning_rate = 0.01}), options); };
}

WorkerClock ClockOf(TestReplica& replica, int worker) {
  const auto clocks = ReadClocks(*replica.session, replica.graph);
  EXPECT_TRUE(clocks.ok()) << clocks.status();
  if (!clocks.ok() || static_cast<int>(clocks->size()) <= worker) return {.worker = -1};
  return (*clocks)[worker];
}

TEST(BoundedStaleness, NobodyIsFurtherAheadThanTheSlack) {
  TestCluster cluster({{"ps", 2}, {"worker", 2}});
  TestReplica fast(&cluster, 0, Bounded({.slack = 2})), slow(&cluster, 1, Bounded({.slack = 2}));
  fast.Start();
  slow.Start();
  fast.Step(1, 1);
  fast.Step(1, 1);
  EXPECT_EQ(ClockOf(slow, 0).waits, 0);
  fast.Step(1, 1);
  EXPECT_EQ(ClockOf(slow, 0).waits, 1) << "3 ahead";
  EXPECT_EQ(slow.GlobalStep(), 3);
  std::thread ahead([&] { fast.Step(1, 1); });
  for (int k = 0; k < 20; ++k) EXPECT_EQ(ClockOf(slow, 0).steps, 3) << "waits before its next step";
  slow.Step(1, 1);
  ahead.join();
  EXPECT_EQ(ClockOf(slow, 0).steps, 4);
  EXPECT_EQ(ClockOf(slow, 1).steps, 1);

  TestReplica late(&cluster, 1, Bounded({.slack = 2}));
  slow.End();
  for (int k = 0; k < 10; ++k) fast.Step(1, 1);  // alone
  EXPECT_EQ(ClockOf(fast, 0).waits, 2);
  late.Start();
  EXPECT_EQ(ClockOf(fast, 1).steps, 14) << "starts where the others are";
  fast.Step(1, 1);
  late.Step(1, 1);
  EXPECT_EQ(fast.GlobalStep(), 4 + 1 + 10 + 2);
  late.End();
  fast.End();
}

TEST(BoundedStaleness, AWorkerThatIsLostDoesNotStopTheOthers) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}});
  const BoundedStalenessOptions options = {.slack = 0, .expel_after = absl::Milliseconds(100)};
  for (const int first : {0, 1}) {  // the chief may be the one
    TestReplica one(&cluster, first, Bounded(options)), lost(&cluster, 1 - first, Bounded(options));
    (first == 0 ? one : lost).Start();
    (first == 0 ? lost : one).Start();
    lost.Close();
    one.Step(1, 1);
    one.Step(1, 1);
    EXPECT_FALSE(ClockOf(one, 1 - first).present);
    one.End();
  }
}

// Its variables are lost, and the others wait for the chief to restore them.
TEST(BoundedStaleness, AWaitEndsWhenAParameterServerIsLost) {
  TestCluster cluster({{"ps", 2}, {"worker", 2}});
  TestReplica chief(&cluster, 0, Bounded({.slack = 0})), slow(&cluster, 1, Bounded({.slack = 0}));
  chief.Start();
  slow.Start();
  absl::Status status;
  std::thread steps([&] {
    while (status.ok()) status = chief.TryStep(1, 1);
  });
  while (ClockOf(slow, 0).steps < 1) absl::SleepFor(absl::Milliseconds(1));  // its next step waits
  cluster.Stop({"ps", 1});
  cluster.Start({"ps", 1});
  steps.join();
  EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsAborted(status)) << status;
}

TEST(BoundedStaleness, WrongUses) {
  Graph graph;
  const Scope s = graph.root();
  const auto optimizer = BoundedStaleness(GradientDescent(), {.slack = -1});
  EXPECT_THAT(optimizer->Hooks(true)[0]->Begin(s).message(), testing::HasSubstr("before Minimize()"));
  const TestModel model(s);
  optimizer->Minimize(s, model.loss);
  EXPECT_THAT(s.status().message(), testing::HasSubstr("slack is -1"));
}

}  // namespace
}  // namespace thalweg
