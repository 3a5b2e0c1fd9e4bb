// SPDX-License-Identifier: Apache-2.0
#include "thalweg/monitor/task_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/str_cat.h"

namespace thalweg {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kMs = 1'000'000;

TaskStatus StatusOf(const TaskMonitor& monitor, int trace_steps = 0, bool details = false) {
  TaskStatus status;
  monitor.Fill(&status, trace_steps, details);
  return status;
}

TEST(TaskMonitor, ShortensNamesOfTasks) {
  EXPECT_EQ(ShortTaskName("/job:worker/replica:0/task:12"), "worker 12");
  EXPECT_EQ(ShortTaskName("/job:ps/replica:0/task:0/device:CPU:0"), "ps 0");
  EXPECT_EQ(ShortTaskName("a queue"), "a queue");
  EXPECT_EQ(ShortTaskName(""), "");
}

TEST(TaskMonitor, CountsTrainingStepsOfItsProgram) {
  TaskMonitor monitor("/job:worker/replica:0/task:1");
  const StepRecord::Wait wait{"/job:ps/replica:0/task:0", 3 * kMs};
  monitor.AddStep({.step_id = 7,
                   .start_nanos = 0,
                   .end_nanos = 10 * kMs,
                   .compute_nanos = 5 * kMs,
                   .input_nanos = kMs,
                   .transfer_nanos = kMs,
                   .waits = absl::MakeConstSpan(&wait, 1)});
  monitor.AddStep({.step_id = 7, .whole = true, .trains = true, .start_nanos = 0, .end_nanos = 12 * kMs});
  monitor.AddStep({.step_id = 8, .whole = true, .trains = false, .start_nanos = 0, .end_nanos = kMs});
  monitor.AddStep({.step_id = 9,
                   .whole = true,
                   .trains = true,
                   .start_nanos = 0,
                   .end_nanos = kMs,
                   .code = absl::StatusCode::kUnavailable});
  const TaskStatus status = StatusOf(monitor, 10);
  EXPECT_EQ(status.name(), "worker 1");
  EXPECT_EQ(status.steps(), 1);
  EXPECT_EQ(status.failed_steps(), 1);
  EXPECT_DOUBLE_EQ(status.step_seconds_median(), 0.012);
  EXPECT_DOUBLE_EQ(status.own_seconds_median(), 0.006);  // without the wait for ps 0
  ASSERT_EQ(status.trace_size(), 4);
  EXPECT_EQ(status.trace(0).step_id(), 7u);
  EXPECT_EQ(status.trace(0).waits(0).on(), "ps 0");
  EXPECT_EQ(status.trace(3).error(), "UNAVAILABLE");
}

TEST(TaskMonitor, KeepsTheLastSteps) {
  TaskMonitor monitor("/job:worker/replica:0/task:0");
  const int64_t steps = TaskMonitor::kMaxSteps + 100;
  for (int64_t i = 0; i < steps; ++i) monitor.AddStep({.step_id = i, .start_nanos = i, .end_nanos = i + 1});
  const TaskStatus all = StatusOf(monitor, 1 << 30);
  ASSERT_EQ(all.trace_size(), static_cast<int>(TaskMonitor::kMaxSteps));
  EXPECT_EQ(all.trace(0).step_id(), 100u);
  EXPECT_EQ(StatusOf(monitor, 3).trace(2).step_id(), static_cast<uint64_t>(steps - 1));
}

TEST(TaskMonitor, KeepsTheLongestWaitsOfAStep) {
  TaskMonitor monitor("/job:worker/replica:0/task:0");
  std::vector<std::string> names;
  for (int i = 0; i < 10; ++i) names.push_back(absl::StrCat("/job:ps/replica:0/task:", i));
  std::vector<StepRecord::Wait> waits;
  for (int i = 0; i < 10; ++i) waits.push_back({names[i], (i + 1) * kMs});
  monitor.AddStep({.step_id = 1, .end_nanos = 100 * kMs, .waits = waits});
  const TaskStatus status = StatusOf(monitor, 1);
  std::vector<std::string> on;
  for (const PhaseTime& wait : status.trace(0).waits()) on.push_back(wait.on());
  EXPECT_THAT(on, ::testing::UnorderedElementsAre("ps 9", "ps 8", "ps 7", "ps 6"));
  double total = 0;
  for (const PhaseTime& phase : status.phases()) total += phase.seconds();
  EXPECT_DOUBLE_EQ(total, 0.055);  // the totals have all of them
}

TEST(TaskMonitor, CountsTheUpdatesOfEachWorker) {
  TaskMonitor monitor("/job:ps/replica:0/task:0");
  const auto add = [&](const char* master, bool trains) {
    monitor.AddStep({.step_id = 1, .trains = trains, .end_nanos = kMs, .master = master});
  };
  for (int i = 0; i < 3; ++i) add("/job:worker/replica:0/task:1", true);
  add("/job:worker/replica:0/task:0", true);
  add("/job:worker/replica:0/task:0", false);
  const TaskStatus status = StatusOf(monitor);
  ASSERT_EQ(status.gradients_size(), 2);
  EXPECT_EQ(status.gradients(0).worker(), "worker 1");
  EXPECT_EQ(status.gradients(0).applied(), 3);
  EXPECT_EQ(status.gradients(1).applied(), 1);
}

TEST(WaitSums, HasAllTasks) {
  WaitSums sums;
  std::vector<std::string> names;
  for (int i = 0; i < 40; ++i) names.push_back(absl::StrCat("ps ", i));
  for (int round = 1; round <= 2; ++round) {
    sums.Clear();
    for (int twice = 0; twice < 2; ++twice) {
      for (const std::string& name : names) sums.Add(name, round * kMs);
    }
    ASSERT_EQ(sums.waits().size(), 40u);
    for (const StepRecord::Wait& wait : sums.waits()) EXPECT_EQ(wait.nanos, 2 * round * kMs) << wait.on;
  }
}

TEST(TaskMonitor, KnowsWhenTheLastStepOfAnyKindEnded) {
  TaskMonitor monitor("/job:worker/replica:0/task:0");
  EXPECT_EQ(StatusOf(monitor).seconds_since_any_step(), -1);
  monitor.AddStep({.step_id = 1, .whole = true, .trains = false, .start_nanos = 0, .end_nanos = kMs});
  EXPECT_GT(StatusOf(monitor).seconds_since_any_step(), 0);
  EXPECT_EQ(StatusOf(monitor).seconds_since_step(), -1);
}

TEST(TaskMonitor, ForeignNamesAreLimited) {
  TaskMonitor monitor("/job:worker/replica:0/task:0");
  for (size_t i = 0; i < 2 * TaskMonitor::kMaxPeers; ++i) {
    const std::string name = absl::StrCat("/job:a/replica:0/task:", i);
    const StepRecord::Wait wait{name, kMs};
    monitor.AddStep({.step_id = 1, .end_nanos = kMs, .waits = absl::MakeConstSpan(&wait, 1)});
  }
  EXPECT_LE(StatusOf(monitor).phases_size(), static_cast<int>(TaskMonitor::kMaxPeers) + 3);
}

TEST(TaskMonitor, RepeatedEventsAreOne) {
  TaskMonitor monitor("/job:worker/replica:0/task:0");
  for (int i = 0; i < 50; ++i) monitor.AddEvent("task lost", "ps 0");
  monitor.AddEvent("step failed", "ps 0");
  EXPECT_EQ(StatusOf(monitor).events_size(), 2);
  for (int i = 0; i < 1000; ++i) monitor.AddEvent("step failed", absl::StrCat(i));
  EXPECT_EQ(StatusOf(monitor).events_size(), static_cast<int>(TaskMonitor::kMaxEvents));
}

TEST(TaskMonitor, OnlyFaultsAreReasonsForADump) {
  TaskMonitor monitor("/job:worker/replica:0/task:0");
  monitor.AddEvent("restored", "the variables, from model.ckpt-5");
  EXPECT_EQ(monitor.num_faults(), 0);
  monitor.AddFault("task lost", "ps 0");
  monitor.AddFault("task lost", "ps 0");
  EXPECT_EQ(monitor.num_faults(), 2);
  EXPECT_EQ(monitor.last_fault(), "task lost: ps 0");
  EXPECT_EQ(StatusOf(monitor).events_size(), 2);
}

// A message with a string that is not UTF-8 could not be parsed.
TEST(TaskMonitor, TextsOfClientsBecomeUtf8) {
  TaskMonitor monitor("/job:worker/replica:0/task:0");
  monitor.AddEvent("bad\xff", "text\xc3");
  monitor.AddEvent("long", std::string(1999, 'a') + "\xc3\xa4");  // the limit is within a character
  monitor.SetScalar("loss\xff", 1);
  monitor.Sample(1, 0);
  const TaskStatus status = StatusOf(monitor);
  TaskStatus parsed;
  ASSERT_TRUE(parsed.ParseFromString(status.SerializeAsString()));
  EXPECT_EQ(parsed.events(0).kind(), "bad\\xff");
  EXPECT_EQ(parsed.events(0).text(), "text\\xc3");
  EXPECT_EQ(parsed.scalars(0).name(), "loss\\xff");
  EXPECT_EQ(Utf8Text("h\xc3\xa4"), "h\xc3\xa4");
}

TEST(TaskMonitor, TheRateOfGlobalStepsBeginsWithTheGlobalStep) {
  TaskMonitor monitor("/job:ps/replica:0/task:0");
  monitor.Sample(/*global_step=*/-1, 0);  // not initialized yet
  monitor.Sample(0, 0);
  monitor.Sample(100, 0);
  EXPECT_EQ(StatusOf(monitor).global_step(), 100);
  EXPECT_GT(StatusOf(monitor).global_steps_per_second(), 0);
}

TEST(TaskMonitor, SeriesOfScalarsAreThinnedOut) {
  TaskMonitor monitor("/job:worker/replica:0/task:0");
  for (int i = 0; i < 5000; ++i) {
    monitor.SetScalar("loss:0", i);
    monitor.Sample(/*global_step=*/2 * i, 0);
  }
  monitor.Sample(10'000, 0);  // nothing new: no point
  const TaskStatus status = StatusOf(monitor, 0, /*details=*/true);
  ASSERT_EQ(status.scalars_size(), 1);
  const ScalarSeries& series = status.scalars(0);
  EXPECT_LE(series.values_size(), static_cast<int>(TaskMonitor::kMaxPoints));
  EXPECT_GE(series.values_size(), static_cast<int>(TaskMonitor::kMaxPoints) / 2 - 1);
  for (int i = 0; i < series.values_size(); ++i) EXPECT_EQ(series.steps(i), 2 * series.values(i));
  EXPECT_EQ(StatusOf(monitor).scalars(0).values_size(), 1);  // only the last without details
}

TEST(TaskMonitor, NumbersThatJsonCannotHoldAreLeftOut) {
  TaskMonitor monitor("/job:worker/replica:0/task:0");
  monitor.SetScalar("loss:0", std::numeric_limits<double>::quiet_NaN());
  monitor.Sample(1, 0);
  EXPECT_EQ(StatusOf(monitor, 0, true).scalars(0).values_size(), 0);
}

class NamedStep : public MonitoredStep {
 public:
  explicit NamedStep(uint64_t id) : id_(id) {}
  void Describe(RunningStep* description) const override { description->set_step_id(id_); }

 private:
  const uint64_t id_;
};

TEST(TaskMonitor, ListsRunningSteps) {
  TaskMonitor monitor("/job:worker/replica:0/task:0");
  NamedStep a(1), b(2), c(3);
  const auto ids = [&] {
    std::vector<uint64_t> found;
    const TaskStatus status = StatusOf(monitor);
    for (const RunningStep& step : status.running()) found.push_back(step.step_id());
    return found;
  };
  monitor.Add(&a);
  monitor.Add(&b);
  monitor.Add(&c);
  EXPECT_THAT(ids(), ElementsAre(3, 2, 1));
  monitor.Remove(&b);
  EXPECT_THAT(ids(), ElementsAre(3, 1));
  monitor.Remove(&c);
  monitor.Remove(&a);
  EXPECT_THAT(ids(), ElementsAre());
}

TEST(DurationHistogram, BucketsHaveInclusiveUpperBounds) {
  DurationHistogram histogram;
  histogram.Add(0);
  histogram.Add(DurationHistogram::BoundNanos(0));
  histogram.Add(DurationHistogram::BoundNanos(0) + 1);
  histogram.Add(std::numeric_limits<int64_t>::max() / 2);
  EXPECT_EQ(histogram.in_bucket(0), 2);
  EXPECT_EQ(histogram.in_bucket(1), 1);
  EXPECT_EQ(histogram.in_bucket(DurationHistogram::kBounds), 1);
  for (int i = 0; i < DurationHistogram::kBounds; ++i) {
    DurationHistogram around;
    around.Add(DurationHistogram::BoundNanos(i));
    around.Add(DurationHistogram::BoundNanos(i) + 1);
    EXPECT_EQ(around.in_bucket(i), 1) << i;
    EXPECT_EQ(around.in_bucket(i + 1), 1) << i;
  }
}

}  // namespace
}  // namespace thalweg
