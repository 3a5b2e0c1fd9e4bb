// SPDX-License-Identifier: Apache-2.0
#include "thalweg/launch/progress_table.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace thalweg {
namespace {

using testing::ElementsAre;

TEST(ProgressTableTest, StepsAreReadFromLines) {
  const auto check = [](const char* line, int64_t step, int64_t total, std::optional<double> loss) {
    const auto told = ParseStepLine(line);
    ASSERT_TRUE(told.has_value()) << line;
    EXPECT_EQ(told->step, step) << line;
    EXPECT_EQ(told->total, total) << line;
    EXPECT_EQ(told->loss, loss) << line;
  };
  check("step 1200/5000  loss 0.1234  980 steps/s  ETA 4s", 1200, 5000, 0.1234);
  check("Train step 100, loss: 0.500000", 100, 0, 0.5);
  check("global_step=7 loss=2e-3.", 7, 0, 2e-3);
  check("Step: 3", 3, 0, std::nullopt);
  check("INFO:tensorflow:loss = 1.5, step = 101 (0.3 sec)", 101, 0, 1.5);
  for (const char* line : {"", "step", "steps 12", "footstep 3", "First stepping", "step by step", "loss 3"}) {
    EXPECT_FALSE(ParseStepLine(line).has_value()) << line;
  }
}

TEST(ProgressTableTest, Rows) {
  const absl::Time start = absl::UnixEpoch();
  const auto at = [&](int seconds) { return start + absl::Seconds(seconds); };
  ProgressTable table({"ps 0", "worker 0"}, 0);
  EXPECT_THAT(table.Rows(start, 80), ElementsAre("ps 0      starting", "worker 0  starting"));
  table.SetState(0, "running");
  table.SetState(1, "running");
  EXPECT_FALSE(table.AddLine(0, "hello", at(0)));
  EXPECT_TRUE(table.AddLine(1, "step 100/1000 loss: 0.5", at(0)));
  EXPECT_TRUE(table.AddLine(1, "step 300/1000 loss: 0.25", at(2)));
  EXPECT_THAT(table.Rows(at(2), 80),
              ElementsAre("ps 0      running", "worker 0  running  step 300/1000  100 steps/s  loss 0.25",
                          "total              step 300/1000  100 steps/s  ETA 7s"));
  EXPECT_THAT(table.Rows(at(2), 10), ElementsAre("ps 0      ", "worker 0  ", "total     "));
  // A task that was started again begins anew; the whole does not.
  table.AddLine(1, "step 250", at(3));
  EXPECT_THAT(table.Rows(at(3), 80)[1], "worker 0  running  step 250/1000  loss 0.25");
  EXPECT_THAT(table.Rows(at(3), 80)[2], "total              step 300/1000  100 steps/s  ETA 7s");
}

TEST(ProgressTableTest, WhatTasksTellCountsMoreThanTheirLines) {
  const absl::Time now = absl::UnixEpoch();
  ProgressTable table({"worker 0", "worker 1"}, 1000);
  table.SetState(0, "running");
  table.SetState(1, "running");
  table.AddLine(1, "step 130794180656734348 of session 5 waits", now);
  table.SetProgress(0, {.steps = 120, .rate = 12.5, .loss = 0.5, .http = "http://localhost:1/"});
  table.SetProgress(1, {.trouble = "not answering for 12 s"});
  table.SetGlobalStep(250, 25);
  EXPECT_THAT(table.Rows(now, 120),
              ElementsAre("worker 0  running                 120 steps  12 steps/s  loss 0.5  http://localhost:1/",
                          "worker 1  not answering for 12 s",
                          "total                             step 250/1000  25 steps/s  ETA 30s"));
}

TEST(ProgressTableTest, TheTotalIsThatOfTheStatus) {
  const absl::Time now = absl::UnixEpoch();
  ProgressTable table({"worker 0"}, 0);
  table.AddLine(0, "step 5/50", now);  // of something else, such as an evaluation
  table.SetGlobalStep(250, 25);
  table.SetEnd(1000, 40);
  EXPECT_THAT(table.Rows(now, 120)[1], "total               step 250/1000  25 steps/s  ETA 40s");
  // The parameter server that has the global step does not answer: its old rate says nothing.
  table.SetGlobalStep(250, -1);
  table.SetEnd(1000, 0);
  EXPECT_THAT(table.Rows(now, 120)[1], "total               step 250/1000");
}

TEST(ProgressTableTest, TheLossIsAScalarWithThatName) {
  TaskStatus task;
  const auto add = [&](const char* name, double value) {
    ScalarSeries* const scalar = task.add_scalars();
    scalar->set_name(name);
    if (value > 0) scalar->add_values(value);
  };
  add("learning rate", 0.1);
  add("accuracy", 0.9);
  EXPECT_EQ(LossOf(task), std::nullopt);
  add("train/total_loss:0", 0.5);
  EXPECT_EQ(LossOf(task), 0.5);
  add("loss:0", 0.25);
  EXPECT_EQ(LossOf(task), 0.25);
}

TEST(ProgressTableTest, OnlyPlainProgressLinesAreInTheTable) {
  for (const char* line : {"step 1200/5000  loss 0.1234  980 steps/s  ETA 4s", "Train step 100, loss: 0.500000",
                           "INFO:tensorflow:loss = 1.5, step = 101 (0.3 sec)", "global_step=7 loss=2e-3."}) {
    EXPECT_TRUE(IsPlainStepLine(line)) << line;
  }
  for (const char* line : {"hello", "restored model.ckpt at step 100", "step 100: loss is NaN, skipping the batch file",
                           "step 7: worker 1 is missing"}) {
    EXPECT_FALSE(IsPlainStepLine(line)) << line;
  }
}

// Lines that do not fit into the terminal cannot be redrawn in place.
TEST(ProgressTableTest, MoreTasksThanLines) {
  ProgressTable table({"worker 0", "worker 1", "worker 2", "worker 3"}, 0);
  const absl::Time now = absl::UnixEpoch();
  EXPECT_THAT(table.Rows(now, 80, 3), ElementsAre("worker 0  starting", "worker 1  starting", "... 2 more"));
  table.AddLine(3, "step 7", now);
  EXPECT_THAT(table.Rows(now, 80, 3), ElementsAre("worker 0  starting", "... 3 more", "total               step 7"));
  EXPECT_THAT(table.Rows(now, 80, 5), testing::SizeIs(5));
}

}  // namespace
}  // namespace thalweg
