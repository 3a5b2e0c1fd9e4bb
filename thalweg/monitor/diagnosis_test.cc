// SPDX-License-Identifier: Apache-2.0
#include "thalweg/monitor/diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
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
  task->set_seconds_since_any_step(kind == "ps" ? -1 : 0.1);
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
  job.mutable_tasks(0)->set_address("node7:2222");
  job.mutable_tasks(0)->set_pid(4242);
  AddWait(job.mutable_tasks(3), 1, "worker 1", true, "part", "ps 0", 42);
  const auto findings = Diagnose(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_TRUE(findings[0].stuck());
  EXPECT_EQ(findings[0].culprit(), "ps 0");
  EXPECT_THAT(findings[0].text(), AllOf(HasSubstr("ps 0 does not answer"),
                                        HasSubstr("last answered 43 s ago at node7:2222 (process 4242);"),
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
  AddWait(job.mutable_tasks(2), 1, "worker 0", true, "part", "ps 1", 40);
  RunningStep* const part = job.mutable_tasks(1)->add_running();
  part->set_step_id(1);
  part->set_master("worker 0");
  part->set_seconds(40);
  const auto findings = Diagnose(job);
  ASSERT_FALSE(findings.empty());
  for (const Finding& finding : findings) EXPECT_EQ(finding.culprit(), "ps 1") << finding.text();
}

TEST(Diagnose, TheWorkerThatOthersWaitForInSynchronousTraining) {
  JobStatus job = TwoAndTwo();
  AddWait(job.mutable_tasks(0), 1, "worker 0", false, "token", "the next synchronous step", 40);
  RunningStep* const slow = job.mutable_tasks(3)->add_running();
  slow->set_step_id(2);
  slow->set_master("worker 1");
  slow->set_seconds(40);
  const auto findings = Diagnose(job);
  ASSERT_FALSE(findings.empty());
  for (const Finding& finding : findings) EXPECT_EQ(finding.culprit(), "worker 1") << finding.text();
}

void AddGradientWait(TaskStatus* ps, double have, double wanted, const std::vector<std::string>& missing,
                     double seconds) {
  GradientWait* const wait = ps->add_gradient_waits();
  wait->set_step(17);
  wait->set_have(have);
  wait->set_wanted(wanted);
  wait->set_seconds(seconds);
  for (const std::string& worker : missing) wait->add_missing(worker);
}

TEST(DescribeGradientWait, NamesThoseThatAreMissing) {
  const auto describe = [](double have, double wanted, const std::vector<std::string>& missing) {
    TaskStatus ps;
    AddGradientWait(&ps, have, wanted, missing, 12.4);
    return DescribeGradientWait(ps.gradient_waits(0));
  };
  EXPECT_EQ(describe(1, 2, {"worker 2"}), "waits for a gradient of worker 2 for step 17, since 12 s");
  EXPECT_EQ(describe(0, 3, {"worker 0", "worker 1", "worker 2"}),
            "waits for gradients of worker 0, worker 1 and worker 2 for step 17, since 12 s");
  EXPECT_EQ(describe(1, 2, {"worker 1", "worker 2"}),
            "waits for a gradient of worker 1 or worker 2 for step 17, since 12 s");
  EXPECT_EQ(describe(0, 4, {}), "waits for 4 gradients for step 17, since 12 s");
  EXPECT_EQ(describe(0, 7, {"a", "b", "c", "d", "e", "f", "g"}),
            "waits for gradients of a, b, c, d, e and 2 others for step 17, since 12 s");
}

// Both workers are in long steps, but only one of them is what the parameter servers wait for.
TEST(Diagnose, TheWorkerWhoseGradientIsMissing) {
  JobStatus job = TwoAndTwo();
  AddTask(&job, "worker", 2);
  AddWait(job.mutable_tasks(0), 1, "worker 0", false, "gradients", "gradients", 40);
  AddWait(job.mutable_tasks(1), 1, "worker 0", false, "gradients", "gradients", 40);
  for (const int i : {3, 4}) {
    AddWait(job.mutable_tasks(i), static_cast<uint64_t>(i), i == 3 ? "worker 1" : "worker 2", true, "input", "examples",
            40);
  }
  AddGradientWait(job.mutable_tasks(1), 2, 3, {"worker 2"}, 39);
  std::vector<std::string> synchronization;
  for (const Finding& finding : Diagnose(job)) {
    if (absl::StrContains(finding.text(), "gradient")) synchronization.push_back(finding.text());
  }
  ASSERT_EQ(synchronization.size(), 1u);
  EXPECT_EQ(
      synchronization[0],
      "ps 0, in a step of worker 0, has waited 40 s for gradients: ps 1 waits for a gradient of worker 2 for step "
      "17, since 39 s; worker 2 has been in its step for 40 s, which waits for examples");
  std::string all;
  for (const std::string& line : StatusLines(job)) absl::StrAppend(&all, line, "\n");
  EXPECT_THAT(all, HasSubstr("\nps 1 waits for a gradient of worker 2 for step 17, since 39 s\n"));
}

TEST(Diagnose, AWorkerThatDoesNotAnswerAndWhoseGradientIsMissing) {
  JobStatus job = TwoAndTwo();
  SetDown(job.mutable_tasks(3), "DEADLINE_EXCEEDED: Deadline Exceeded", 43);
  AddWait(job.mutable_tasks(0), 1, "worker 0", false, "token", "the next synchronous step", 42);
  AddGradientWait(job.mutable_tasks(0), 1, 2, {"worker 1"}, 42);
  const auto findings = Diagnose(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].culprit(), "worker 1");
  EXPECT_THAT(findings[0].text(), AllOf(HasSubstr("worker 0 has waited 42 s for the next synchronous step"),
                                        HasSubstr("; ps 0 waits for a gradient of worker 1 for step 17, since 42 s")));
}

void AddExpelled(TaskStatus* ps, const char* worker, double seconds) {
  MemberStatus* const member = ps->add_members();
  member->set_worker(worker);
  member->set_state("expelled");
  member->set_seconds(seconds);
}

TEST(Diagnose, AnExpelledWorkerDoesNotBlockTheJob) {
  JobStatus job = TwoAndTwo();
  AddExpelled(job.mutable_tasks(0), "worker 1", 12);
  job.mutable_tasks(0)->add_members()->set_worker("worker 0");
  auto findings = Diagnose(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_FALSE(findings[0].stuck());
  EXPECT_EQ(findings[0].text(),
            "worker 1 was expelled 12 s ago because it held up the others; the training goes on without it; worker "
            "1 runs no step (its program is busy outside of steps)");
  std::string all;
  for (const std::string& line : StatusLines(job)) absl::StrAppend(&all, line, "\n");
  EXPECT_THAT(all, HasSubstr("\nworker 1  up, expelled "));
  EXPECT_THAT(all, HasSubstr("\nworker 0  up  "));

  SetDown(job.mutable_tasks(3), "DEADLINE_EXCEEDED: Deadline Exceeded", 43);
  findings = Diagnose(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_FALSE(findings[0].stuck());
  EXPECT_THAT(findings[0].text(), AllOf(HasSubstr("worker 1 does not answer"),
                                        HasSubstr("it was expelled 12 s ago, and the training goes on without it")));
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

void SetUsual(TaskStatus* task, double seconds) {
  task->set_step_seconds_median(seconds);
  task->set_step_seconds_p99(seconds * 1.2);
  task->set_own_seconds_median(seconds);
  task->set_steps(100);
}

TEST(Diagnose, LongStepsAreNotStuck) {
  JobStatus job = TwoAndTwo();
  SetUsual(job.mutable_tasks(2), 20);
  SetUsual(job.mutable_tasks(3), 20);
  AddWait(job.mutable_tasks(0), 1, "worker 0", false, "token", "the next synchronous step", 15);
  RunningStep* const computes = job.mutable_tasks(3)->add_running();
  computes->set_step_id(2);
  computes->set_master("worker 1");
  computes->set_seconds(18);
  RunningStep* const whole = job.mutable_tasks(3)->add_running();
  *whole = *computes;
  whole->set_whole(true);
  EXPECT_TRUE(Diagnose(job).empty());
  EXPECT_FALSE(Diagnose(job, {.stuck_after = 10}).empty());
  computes->set_seconds(100);
  whole->set_seconds(100);
  job.mutable_tasks(0)->mutable_running(0)->mutable_waits(0)->set_seconds(90);
  job.mutable_tasks(0)->mutable_running(0)->set_seconds(90);
  const auto findings = Diagnose(job);
  ASSERT_FALSE(findings.empty());
  for (const Finding& finding : findings) EXPECT_EQ(finding.culprit(), "worker 1") << finding.text();
  EXPECT_THAT(findings[0].text(), HasSubstr("usually takes 20 s"));
}

TEST(Diagnose, ACheckpointThatTakesLongIsNotStuck) {
  JobStatus job = TwoAndTwo();
  SetUsual(job.mutable_tasks(2), 0.01);
  RunningStep* const save = job.mutable_tasks(2)->add_running();
  save->set_step_id(9);
  save->set_master("worker 0");
  save->set_whole(true);
  save->set_seconds(6);
  save->set_purpose("checkpoint");
  RunningStep* const part = job.mutable_tasks(0)->add_running();
  part->set_step_id(9);
  part->set_master("worker 0");
  part->set_seconds(6);
  StepWait* const wait = save->add_waits();
  wait->set_kind("part");
  wait->set_on("ps 0");
  wait->set_seconds(6);
  EXPECT_TRUE(Diagnose(job).empty());
  save->set_purpose("");
  EXPECT_FALSE(Diagnose(job).empty());
}

TEST(Diagnose, AProgramThatHangsOutsideOfSteps) {
  JobStatus job = TwoAndTwo();
  TaskStatus* const worker = job.mutable_tasks(3);
  SetUsual(worker, 0.01);
  worker->set_seconds_since_any_step(60);
  const auto findings = Diagnose(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].culprit(), "worker 1");
  EXPECT_THAT(findings[0].text(), HasSubstr("has run no step for 60 s"));
  worker->set_stop_step(500);
  job.mutable_tasks(0)->set_has_global_step(true);
  job.mutable_tasks(0)->set_global_step(500);
  EXPECT_TRUE(Diagnose(job).empty());  // it has trained to the end
  job.mutable_tasks(0)->set_global_step(400);
  worker->set_master_sessions(0);
  EXPECT_TRUE(Diagnose(job).empty());  // it has left
}

TEST(Diagnose, AFinishedTaskBlocksNobody) {
  JobStatus job = TwoAndTwo();
  SetDown(job.mutable_tasks(3), "UNAVAILABLE: connection refused", 10);
  EXPECT_TRUE(IsStuck([&] {
    JobStatus diagnosed = job;
    for (const Finding& finding : Diagnose(job)) *diagnosed.add_findings() = finding;
    return diagnosed;
  }()));
  job.mutable_tasks(3)->set_state("finished");
  EXPECT_TRUE(Diagnose(job).empty());
  EXPECT_EQ(DescribeState(job.tasks(3)), "finished");
}

TEST(Diagnose, OneMissedAnswerIsNoProof) {
  JobStatus job = TwoAndTwo();
  SetDown(job.mutable_tasks(3), "DEADLINE_EXCEEDED: Deadline Exceeded", 1);
  job.mutable_tasks(3)->set_missed_answers(1);
  auto findings = Diagnose(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_FALSE(findings[0].stuck());
  EXPECT_THAT(findings[0].text(), HasSubstr("worker 1 has not answered in time once"));
  job.mutable_tasks(3)->set_missed_answers(2);
  findings = Diagnose(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_TRUE(findings[0].stuck());
}

TEST(Diagnose, AStoppedWorkerOfSynchronousTrainingAndWhoWaits) {
  JobStatus job = TwoAndTwo();
  SetDown(job.mutable_tasks(3), "DEADLINE_EXCEEDED: Deadline Exceeded", 12);
  AddWait(job.mutable_tasks(1), 5, "worker 0", false, "gradients", "mean", 12);
  AddWait(job.mutable_tasks(0), 1, "worker 0", false, "token", "the next synchronous step", 11);
  const auto findings = Diagnose(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].text(), HasSubstr("worker 0 has waited 11 s for the next synchronous step, to which worker 1 "
                                            "contributes"));
}

TEST(Diagnose, AParameterServerThatTheKernelHasKilled) {
  JobStatus job = TwoAndTwo();
  for (int i = 0; i < 4; ++i) job.mutable_tasks(i)->set_address(absl::StrCat(i < 2 ? "node1:" : "node2:", 2222 + i));
  SetDown(job.mutable_tasks(0), "UNAVAILABLE: connection refused", 3);
  job.mutable_tasks(2)->set_oom_kills(1);
  EXPECT_THAT(Diagnose(job)[0].text(), Not(HasSubstr("killed")));  // on another machine
  job.mutable_tasks(1)->set_oom_kills(1);
  job.mutable_tasks(1)->set_seconds_since_oom_kill(2.5);
  EXPECT_THAT(Diagnose(job)[0].text(), AllOf(HasSubstr("ps 0 cannot be reached"),
                                             HasSubstr("; the kernel has killed a process on its machine for lack of "
                                                       "memory, the last one 2.5 s ago")));
  job.mutable_tasks(1)->set_seconds_since_oom_kill(60);
  EXPECT_THAT(Diagnose(job)[0].text(), Not(HasSubstr("killed"))) << "it has answered since then";
}

TEST(Diagnose, ATaskCloseToTheLimitOfItsMemory) {
  JobStatus job = TwoAndTwo();
  for (TaskStatus& task : *job.mutable_tasks()) {
    task.set_host("node1");
    task.set_memory_bytes(1e9);
    task.set_memory_limit_bytes(16e9);
  }
  EXPECT_TRUE(Diagnose(job).empty());
  job.mutable_tasks(1)->set_memory_bytes(12e9);
  const auto findings = Diagnose(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_FALSE(findings[0].stuck());
  EXPECT_EQ(findings[0].culprit(), "ps 1");
  EXPECT_THAT(findings[0].text(),
              AllOf(HasSubstr("12.0 GB of 16.0 GB"), HasSubstr("the 4 tasks of its machine have 15.0 GB")));
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

TEST(StatusText, AStuckJobHasNoTimeLeft) {
  JobStatus job = TwoAndTwo();
  job.set_seconds_left(3600);
  EXPECT_THAT(StatusLines(job)[0], HasSubstr("done in 1h"));
  job.add_findings()->set_stuck(true);
  EXPECT_THAT(StatusLines(job)[0], AllOf(HasSubstr("; stuck"), Not(HasSubstr("done in"))));
}

TEST(StatusText, TrafficBalanceGradientsAndEvents) {
  JobStatus job = TwoAndTwo();
  PeerTraffic* const traffic = job.mutable_tasks(2)->add_traffic();
  traffic->set_peer("ps 0");
  traffic->set_path("shared memory");
  traffic->set_bytes_per_second(2.5e6);
  for (int i = 0; i < 2; ++i) {
    job.mutable_tasks(i)->set_variables(3);
    job.mutable_tasks(i)->set_variable_bytes(1e6 * (1 + 2 * i));
    GradientCount* const gradients = job.mutable_tasks(i)->add_gradients();
    gradients->set_worker("worker 1");
    gradients->set_accepted(20);
    gradients->set_stale(3);
    gradients->set_dropped(1);
    job.mutable_tasks(i)->add_staleness(i);
  }
  std::string all;
  for (const std::string& line : TrafficLines(job)) absl::StrAppend(&all, line, "\n");
  EXPECT_THAT(all, HasSubstr("worker 0   ps 0       shared memory     2.5 MB"));
  EXPECT_THAT(all, HasSubstr("4.0 MB of variables on 2 parameter servers; the largest has 1.50 times the mean"));
  EXPECT_THAT(all, HasSubstr("40 gradients accepted          6 stale          2 dropped"));
  EXPECT_THAT(all, HasSubstr("by age in steps:  0: 1"));
  EXPECT_THAT(EventLines(job)[0], HasSubstr("No events"));
  for (const double time : {1000.0, 2000.0}) {
    MonitorEvent* const event = job.mutable_tasks(1)->add_events();
    event->set_time(time);
    event->set_kind("task lost");
    event->set_text(absl::StrCat("at ", time, "\033"));
  }
  EXPECT_THAT(EventLines(job)[0], HasSubstr("ps 1, task lost: at 2000 "));
  EXPECT_EQ(EventLines(job).size(), 2u);
}

TEST(StatusText, LinesAreCutBetweenCharacters) {
  EXPECT_EQ(CutToColumns("abc", 5), "abc");
  EXPECT_EQ(CutToColumns("abc", 2), "ab");
  EXPECT_EQ(CutToColumns("a\xc3\xa4"
                         "b",
                         2),
            "a\xc3\xa4");
}

TEST(StatusText, LongLinesAreWrappedAtSpaces) {
  using ::testing::ElementsAre;
  EXPECT_THAT(WrapToColumns("stuck: ps 0", 30), ElementsAre("stuck: ps 0"));
  EXPECT_THAT(WrapToColumns("stuck: worker 1 does not answer (its process is stopped)", 24),
              ElementsAre("stuck: worker 1 does not", "  answer (its process is", "  stopped)"));
  const std::string word(50, 'x');
  EXPECT_THAT(WrapToColumns(word, 20),
              ElementsAre(word.substr(0, 20), "  " + word.substr(0, 18), "  " + word.substr(0, 12)));
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

TEST(PrometheusText, GradientsByResult) {
  TaskStatus status;
  status.set_name("ps 0");
  GradientCount* const gradients = status.add_gradients();
  gradients->set_worker("worker 1");
  gradients->set_accepted(20);
  gradients->set_stale(3);
  gradients->set_dropped(2);
  const std::string text = PrometheusText(status);
  for (const char* expected : {"accepted\"} 20", "stale\"} 3", "dropped\"} 2"}) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("thalweg_gradients_total{task=\"ps 0\",worker=\"worker 1\",result=\"",
                                             expected, "\n")));
  }
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
  EXPECT_THAT(trace, HasSubstr(R"("pid":0,"tid":1001,"name":"step abc","ts":5000.000,"dur":1000.000)"));
  EXPECT_THAT(trace, HasSubstr(R"("pid":1,"tid":1001,"name":"step abc","ts":5000.000,"dur":1000.000)"));
  EXPECT_THAT(trace, HasSubstr("clock offset 1000 us"));
}

// Slices of one row that overlap without being nested are not valid.
TEST(ChromeTraceOfSteps, StepsThatRunAtTheSameTimeHaveRowsOfTheirOwn) {
  JobStatus job;
  TaskStatus* const ps = AddTask(&job, "ps", 0);
  const auto add = [&](uint64_t id, double start, double end) {
    StepTrace* const step = ps->add_trace();
    step->set_step_id(id);
    step->set_start_us(start);
    step->set_end_us(end);
    step->set_compute_us(2 * (end - start));  // times overlap by rounding
  };
  add(0xb, 1500, 2500);  // ends first
  add(0xa, 1000, 3000);
  add(0xc, 2600, 4000);
  const std::string trace = ChromeTraceOfSteps(job);
  EXPECT_THAT(trace, HasSubstr(R"("tid":1001,"name":"step a","ts":1000.000,"dur":2000.000)"));
  EXPECT_THAT(trace, HasSubstr(R"("tid":1002,"name":"step b","ts":1500.000,"dur":1000.000)"));
  EXPECT_THAT(trace, HasSubstr(R"("tid":1002,"name":"step c","ts":2600.000,"dur":1400.000)"));
  EXPECT_THAT(trace, HasSubstr(R"("tid":1001,"name":"compute","ts":1000.000,"dur":2000.000)"));
}

}  // namespace
}  // namespace thalweg
