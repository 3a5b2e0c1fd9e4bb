// SPDX-License-Identifier: Apache-2.0
#include "thalweg/monitor/diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "thalweg/monitor/prometheus_text.h"
#include "thalweg/monitor/status_text.h"
#include "thalweg/monitor/step_trace.h"
#include "thalweg/monitor/task_monitor.h"

namespace thalweg {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TaskStatus* AddTask(JobStatus* job, const std::string& kind, int index) {
  TaskStatus* const task = job->add_tasks();
  task->set_task(absl::StrCat("/job:", kind, "/replica:0/task:", index));
  task->set_name(absl::StrCat(kind, " ", index));
  task->set_state("up");
  task->set_time(1000);
  task->set_master_sessions(kind == "ps" ? 0 : 1);
  task->set_seconds_since_step(kind == "ps" ? -1 : 0.1);
  return task;
}

JobStatus TwoAndTwo() {
  JobStatus job;
  for (const char* kind : {"ps", "worker"}) {
    for (int i = 0; i < 2; ++i) AddTask(&job, kind, i);
  }
  return job;
}

void SetDown(TaskStatus* task, const char* error, double silent) {
  task->set_state("down");
  task->set_error(error);
  task->set_seconds_silent(silent);
}

StepWait* AddWait(TaskStatus* task, uint64_t step, const char* master, bool whole, const char* kind, const char* on,
                  double seconds) {
  RunningStep* const running = task->add_running();
  running->set_step_id(step);
  running->set_master(master);
  running->set_whole(whole);
  running->set_seconds(seconds);
  StepWait* const wait = running->add_waits();
  wait->set_kind(kind);
  wait->set_on(on);
  wait->set_node("node");
  wait->set_seconds(seconds);
  return wait;
}

TEST(Diagnose, NothingIsWrong) {
  const JobStatus job = TwoAndTwo();
  EXPECT_TRUE(Diagnose(job).empty());
  EXPECT_EQ(FindingLines(job)[0], "Nothing blocks the job.");
  EXPECT_FALSE(IsStuck(job));
}

TEST(Diagnose, ATaskThatHangsAndWhoWaitsForIt) {
  JobStatus job = TwoAndTwo();
  SetDown(job.mutable_tasks(0), "DEADLINE_EXCEEDED: Deadline Exceeded", 43);
  AddWait(job.mutable_tasks(3), 1, "worker 1", true, "part", "ps 0", 42);
  const auto findings = Diagnose(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_TRUE(findings[0].stuck());
  EXPECT_EQ(findings[0].culprit(), "ps 0");
  EXPECT_THAT(findings[0].text(), AllOf(HasSubstr("ps 0 does not answer"), HasSubstr("last answered 43 s ago"),
                                        HasSubstr("worker 1 has waited 42 s for ps 0: RunGraph is not answered")));
}

TEST(Diagnose, TheChiefIsNamedAsSuch) {
  JobStatus job = TwoAndTwo();
  job.mutable_tasks(0)->set_uninitialized_variables(3);
  SetDown(job.mutable_tasks(2), "UNAVAILABLE: connection refused", -1);
  EXPECT_THAT(Diagnose(job)[0].text(),
              AllOf(HasSubstr("worker 0 cannot be reached"), HasSubstr("is the chief"), HasSubstr("initialize")));
}

TEST(Diagnose, AWaitIsFollowedToTheTaskThatComputes) {
  JobStatus job = TwoAndTwo();
  AddWait(job.mutable_tasks(2), 1, "worker 0", true, "part", "ps 1", 30);
  RunningStep* const part = job.mutable_tasks(1)->add_running();
  part->set_step_id(1);
  part->set_master("worker 0");
  part->set_seconds(30);
  const auto findings = Diagnose(job);
  ASSERT_FALSE(findings.empty());
  for (const Finding& finding : findings) EXPECT_EQ(finding.culprit(), "ps 1") << finding.text();
}

TEST(Diagnose, TheWorkerThatOthersWaitForInSynchronousTraining) {
  JobStatus job = TwoAndTwo();
  AddWait(job.mutable_tasks(0), 1, "worker 0", false, "token", "the next synchronous step", 20);
  RunningStep* const slow = job.mutable_tasks(3)->add_running();
  slow->set_step_id(2);
  slow->set_master("worker 1");
  slow->set_seconds(20);
  const auto findings = Diagnose(job);
  ASSERT_FALSE(findings.empty());
  for (const Finding& finding : findings) EXPECT_EQ(finding.culprit(), "worker 1") << finding.text();
}

TEST(Diagnose, AFullQueueThatNobodyEmpties) {
  JobStatus job = TwoAndTwo();
  QueueStatus* const queue = job.mutable_tasks(2)->add_queues();
  queue->set_name("examples");
  queue->set_size(32);
  queue->set_capacity(32);
  AddWait(job.mutable_tasks(2), 1, "worker 0", false, "room", "examples", 30);
  EXPECT_TRUE(Diagnose(job).empty());  // its consumer takes steps: the queue is just ahead
  job.mutable_tasks(2)->set_seconds_since_step(40);
  const auto findings = Diagnose(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].text(), AllOf(HasSubstr("examples"), HasSubstr("full (32 of 32"), HasSubstr("worker 0")));
}

TEST(Diagnose, OutOfMemoryNamesTheTaskOfTheError) {
  JobStatus job = TwoAndTwo();
  MonitorEvent* const event = job.mutable_tasks(3)->add_events();
  event->set_time(990);
  event->set_kind("step failed");
  event->set_text("RESOURCE_EXHAUSTED: From /job:ps/replica:0/task:1:\nno memory");
  const auto findings = Diagnose(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].culprit(), "ps 1");
  event->set_time(100);
  EXPECT_TRUE(Diagnose(job).empty());  // long ago
}

TEST(Diagnose, AStragglerWithoutTheTimeThatItWaits) {
  JobStatus job = TwoAndTwo();
  job.mutable_tasks(2)->set_own_seconds_median(0.01);
  job.mutable_tasks(3)->set_own_seconds_median(0.05);
  const auto findings = Diagnose(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_FALSE(findings[0].stuck());
  EXPECT_EQ(findings[0].culprit(), "worker 1");
}

TEST(Diagnose, SlowInput) {
  JobStatus job = TwoAndTwo();
  PhaseTime* const phase = job.mutable_tasks(2)->add_phases();
  phase->set_phase("input");
  phase->set_share(0.8);
  EXPECT_THAT(Diagnose(job)[0].text(), HasSubstr("worker 0 spends 80% of its time waiting for input"));
}

TEST(StatusText, HasNoControlCharactersOfClients) {
  JobStatus job = TwoAndTwo();
  ScalarSeries* const scalar = job.mutable_tasks(2)->add_scalars();
  scalar->set_name("loss\033[2J\n");
  scalar->add_steps(1);
  scalar->add_values(0.5);
  std::string all;
  for (const std::string& line : StatusLines(job)) all += line;
  EXPECT_THAT(all, Not(HasSubstr("\033")));
  EXPECT_THAT(all, Not(HasSubstr("\n")));
  EXPECT_THAT(all, HasSubstr("4 of 4 tasks answer"));
}

TEST(PrometheusText, EscapesLabelsAndAddsUpBuckets) {
  TaskMonitor monitor("/job:worker/replica:0/task:0");
  monitor.AddStep({.step_id = 1, .whole = true, .trains = true, .start_nanos = 0, .end_nanos = 20'000});
  TaskStatus status;
  monitor.Fill(&status);
  QueueStatus* const queue = status.add_queues();
  queue->set_name("a\"b\\c\nd");
  const std::string text = PrometheusText(status);
  EXPECT_THAT(text, HasSubstr("thalweg_queue_elements{task=\"worker 0\",queue=\"a\\\"b\\\\c\\nd\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("thalweg_step_seconds_bucket{task=\"worker 0\",phase=\"total\",le=\"1.6e-05\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("thalweg_step_seconds_bucket{task=\"worker 0\",phase=\"total\",le=\"+Inf\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("thalweg_step_seconds_count{task=\"worker 0\",phase=\"total\"} 1\n"));
}

TEST(PrometheusText, TimesAreExact) {
  TaskStatus status;
  status.set_time(1795024131.25);
  status.set_seconds_since_step(1);
  EXPECT_THAT(PrometheusText(status), HasSubstr("thalweg_last_step_timestamp_seconds{task=\"\"} 1795024130.25\n"));
}

TEST(ChromeTraceOfSteps, PutsAllTasksOnOneClock) {
  JobStatus job = TwoAndTwo();
  for (int i = 0; i < 2; ++i) {
    TaskStatus* const task = job.mutable_tasks(i);
    task->set_clock_offset_us(1000 * i);
    StepTrace* const step = task->add_trace();
    step->set_step_id(0xabc);
    step->set_start_us(5000 + 1000 * i);
    step->set_end_us(6000 + 1000 * i);
    step->set_compute_us(500);
  }
  const std::string trace = ChromeTraceOfSteps(job);
  EXPECT_THAT(trace, HasSubstr(R"("pid":0,"tid":2,"name":"step abc","ts":5000.000,"dur":1000.000)"));
  EXPECT_THAT(trace, HasSubstr(R"("pid":1,"tid":2,"name":"step abc","ts":5000.000,"dur":1000.000)"));
  EXPECT_THAT(trace, HasSubstr("clock offset 1000 us"));
}

}  // namespace
}  // namespace thalweg
