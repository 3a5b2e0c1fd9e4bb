// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/adaptive_schedule.h"

#include <set>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/mutex.h"
#include "thalweg/graph/scope.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/runtime/direct_session.h"

namespace thalweg {
namespace {

using testing::ElementsAre;

// A plan of instructions that each fill one slot; inputs are slots.
struct TestPlan {
  Plan plan;
  std::vector<InstructionCost> costs;

  // Returns the number of the instruction, which is that of its slot.
  // With serial_nanos it asks for the pool's help.
  int32_t Add(const std::vector<int32_t>& inputs, double nanos, double serial_nanos = 0) {
    Instruction in;
    in.inputs = plan.AddOperands(inputs);
    in.call.first_output = plan.num_slots++;
    in.call.num_outputs = 1;
    plan.code.push_back(in);
    plan.before.push_back(inputs);
    costs.push_back({nanos, serial_nanos == 0 ? nanos : serial_nanos, serial_nanos != 0});
    return in.call.first_output;
  }
  std::vector<Stage> Find() {
    return FindStages(plan, 0, static_cast<int32_t>(plan.code.size()), costs, /*min_lane_nanos=*/10'000);
  }
};

std::vector<int32_t> Outputs(const std::vector<Instruction>& code) {
  std::vector<int32_t> slots;
  for (const Instruction& in : code) slots.push_back(in.call.first_output);
  return slots;
}

TEST(FindStages, ForksWhereBothSidesHaveEnoughToDo) {
  TestPlan p;
  const int a = p.Add({}, 1000);
  const int b = p.Add({a}, 50'000);
  const int c = p.Add({a}, 40'000);
  const int d = p.Add({b}, 1000);
  const int e = p.Add({c, d}, 1000);
  const std::vector<Stage> stages = p.Find();
  ASSERT_EQ(stages.size(), 3);
  EXPECT_THAT(Outputs(stages[0].first), ElementsAre(a));
  EXPECT_TRUE(stages[0].second.empty());
  EXPECT_THAT(Outputs(stages[1].first), ElementsAre(b));
  EXPECT_THAT(Outputs(stages[1].second), ElementsAre(c));
  EXPECT_THAT(Outputs(stages[2].first), ElementsAre(d, e));
  EXPECT_TRUE(stages[2].second.empty());
}

TEST(FindStages, LanesKeepTheirOrder) {
  TestPlan p;
  const int a = p.Add({}, 30'000);
  const int b = p.Add({}, 30'000);
  const int c = p.Add({a}, 30'000);
  const int d = p.Add({b}, 30'000);
  const std::vector<Stage> stages = p.Find();
  ASSERT_EQ(stages.size(), 1);
  EXPECT_THAT(Outputs(stages[0].first), ElementsAre(a, c));
  EXPECT_THAT(Outputs(stages[0].second), ElementsAre(b, d));
}

TEST(FindStages, StaysSerialWhereOneSideIsSmall) {
  TestPlan p;
  p.Add({}, 100'000);
  p.Add({}, 5000);
  EXPECT_TRUE(p.Find().empty());
}

TEST(FindStages, StaysSerialWhereThreadsInsideOfOpsAreFaster) {
  // Each takes 50 us with the pool's help and 100 us without: forking wins
  // nothing.
  TestPlan p;
  p.Add({}, 50'000, 100'000);
  p.Add({}, 50'000, 100'000);
  EXPECT_TRUE(p.Find().empty());
}

TEST(FindStages, AsksForNoHelpThatDoesNotPay) {
  TestPlan p;
  const int a = p.Add({}, 1000);
  const int b = p.Add({a}, 22'000, 20'000);
  const int c = p.Add({b}, 1000);
  const int d = p.Add({c}, 12'000, 20'000);
  const int e = p.Add({d}, 200'000, 190'000);  // measured on a busy machine
  const int f = p.Add({e}, 1000);
  const int g = p.Add({f}, 19'000, 20'000);
  const std::vector<Stage> stages = p.Find();
  ASSERT_EQ(stages.size(), 4);
  EXPECT_THAT(Outputs(stages[0].first), ElementsAre(a));
  EXPECT_THAT(Outputs(stages[1].first), ElementsAre(b, c));
  EXPECT_THAT(Outputs(stages[2].first), ElementsAre(d, e, f));
  EXPECT_THAT(Outputs(stages[3].first), ElementsAre(g));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(stages[i].serial, i == 1 || i == 3) << i;
}

// A fork is worth what the lanes save beside the pool's help where that pays.
TEST(FindStages, CountsNoHelpThatDoesNotPay) {
  TestPlan p;
  p.Add({}, 60'000, 60'000);
  p.Add({}, 60'000, 60'000);
  const std::vector<Stage> stages = p.Find();
  ASSERT_EQ(stages.size(), 1);
  EXPECT_EQ(stages[0].second.size(), 1);
}

TEST(FindStages, NeitherLaneTakesWhatBothRead) {
  TestPlan p;
  const int x = p.plan.num_slots++;  // an argument
  for (int i = 0; i < 2; ++i) {
    p.plan.before.emplace_back();
    Instruction in;
    in.inputs = p.plan.AddOperands({x});
    in.call.first_output = p.plan.num_slots++;
    in.call.num_outputs = 1;
    if (i == 1) {
      in.call.last_use = 1;
      in.frees = p.plan.AddOperands({x});
    }
    p.plan.code.push_back(in);
    p.costs.push_back({30'000, 30'000});
  }
  const std::vector<Stage> stages = p.Find();
  ASSERT_EQ(stages.size(), 1);
  ASSERT_EQ(stages[0].first.size(), 1);
  ASSERT_EQ(stages[0].second.size(), 1);
  EXPECT_EQ(stages[0].second[0].call.last_use, 0);
  EXPECT_EQ(stages[0].second[0].frees.count, 0);
  EXPECT_THAT(stages[0].frees, ElementsAre(x));
}

// Some runs fail before they have measured anything, while others do.
TEST(AdaptiveSchedule, RunsThatFailAtOnceDoNotDisturbOthers) {
  for (int round = 0; round < 100; ++round) {
    TestPlan p;
    p.Add({}, 1000);
    AdaptiveSchedule schedule;
    schedule.EndRun(p.plan);  // failed
    std::thread other([&] { schedule.Record(p.plan, 0, /*serial=*/false, 1000, /*used_pool=*/true, 2); });
    schedule.RunsSerially(AdaptiveSchedule::Measure::kSerial, 0);
    other.join();
    EXPECT_TRUE(schedule.RunsSerially(AdaptiveSchedule::Measure::kSerial, 0));
    EXPECT_FALSE(schedule.RunsSerially(AdaptiveSchedule::Measure::kWithPool, 0));
  }
}

// Takes 200 us and notes its thread.
Mutex threads_mutex;
std::set<std::thread::id> threads ABSL_GUARDED_BY(threads_mutex);
const OpRegistration kBusy =
    Op("TestBusy").Input("x: T").Output("y: T").Attr("T: type").Shape(shapes::LikeInput0).Compute([](KernelContext& c) {
      const int64_t start = NowNanos();
      while (NowNanos() - start < 200'000) {
      }
      {
        MutexLock lock(&threads_mutex);
        threads.insert(std::this_thread::get_id());
      }
      c.set_output(0, c.input(0));
      return absl::OkStatus();
    });

TEST(AdaptiveSchedule, ASessionLearnsToFork) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s.WithOpName("x"), kFloat, {});
  Output a = x, b = x;
  for (int i = 0; i < 3; ++i) {
    a = s.Add("TestBusy", {a});
    b = Neg(s, s.Add("TestBusy", {b}));
  }
  Sub(s.WithOpName("y"), a, b);
  ASSERT_TRUE(s.ok()) << s.status();
  DirectSession session({.threads = 2});
  ASSERT_TRUE(session.Extend(graph.Export()).ok());
  const auto step = session.Prepare({.feeds = {"x:0"}, .fetches = {"y:0"}});
  ASSERT_TRUE(step.ok()) << step.status();
  const auto run = [&] {
    std::vector<Tensor> results;
    const absl::Status status = session.Run(*step, {}, {Tensor::Scalar(2.f)}, &results, nullptr);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(results[0].scalar<float>(), 4);
  };
  for (int i = 0; i < AdaptiveSchedule::kWarmUpRuns + AdaptiveSchedule::kMeasuredRuns; ++i) run();
  {
    MutexLock lock(&threads_mutex);
    EXPECT_EQ(threads.size(), 1) << "it used a second thread before it had measured the benefit";
  }
  // A helper thread may wake too late in some runs, but not in all of them.
  for (int i = 0; i < 2000; ++i) {
    run();
    MutexLock lock(&threads_mutex);
    if (threads.size() > 1) return;
  }
  ADD_FAILURE() << "it never used a second thread";
}

}  // namespace
}  // namespace thalweg
