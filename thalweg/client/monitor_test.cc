// SPDX-License-Identifier: Apache-2.0
// The status that servers tell, asked as other tasks and commands ask.
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/folder_testlib.h"
#include "thalweg/client/cluster_testlib.h"
#include "thalweg/client/session.h"
#include "thalweg/client/task_completion.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/proto/monitor.pb.h"
#include "thalweg/server/job_monitor.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

std::string AddressOf(const TestCluster& cluster, const TaskId& task) {
  return std::string(absl::StripPrefix(cluster.target(task), "grpc://"));
}

JobStatus StatusOf(const TestCluster& cluster, const TaskId& task) {
  GetMonitorRequest request;
  request.set_whole_job(true);
  request.set_trace_steps(100);
  const absl::StatusOr<JobStatus> job = AskJob(AddressOf(cluster, task), request);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.value_or(JobStatus());
}

const TaskStatus& TaskOf(const JobStatus& job, const std::string& name) {
  for (const TaskStatus& task : job.tasks()) {
    if (task.name() == name) return task;
  }
  ADD_FAILURE() << "no " << name;
  return TaskStatus::default_instance();
}

TEST(MonitorTest, AnyTaskTellsTheWholeJob) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}});
  Graph graph;
  const Scope s = graph.root();
  const Scope ps = s.WithDevice("/job:ps/task:0");
  const Output v = RefVariable(ps.WithOpName("global_step"), kInt64, {});
  const Output init = Assign(ps, v, Const(ps, int64_t{7}));
  const Output add = AssignAdd(ps, v, Const(s.WithDevice("/job:worker/task:0"), int64_t{1}));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(kWorker0)}));
  ASSERT_OK(session->Run({init}).status());
  for (int i = 0; i < 5; ++i) ASSERT_OK(session->Run({add}).status());

  for (const TaskId& asked : {kPs0, kWorker0, kWorker1}) {
    const JobStatus job = StatusOf(cluster, asked);
    ASSERT_EQ(job.tasks_size(), 3);
    EXPECT_EQ(job.findings_size(), 0);
    const TaskStatus& worker = TaskOf(job, "worker 0");
    EXPECT_EQ(worker.state(), "up");
    EXPECT_EQ(worker.steps(), 6);
    EXPECT_EQ(worker.master_sessions(), 1);
    const TaskStatus& server = TaskOf(job, "ps 0");
    EXPECT_EQ(server.variables(), 1);
    EXPECT_EQ(server.variable_bytes(), 8);
    EXPECT_EQ(server.worker_sessions(), 1);
    // A step has one id in all tasks.
    ASSERT_GT(worker.trace_size(), 0);
    ASSERT_GT(server.trace_size(), 0);
    const StepTrace& last = worker.trace(worker.trace_size() - 1);
    EXPECT_TRUE(last.whole());
    EXPECT_EQ(server.trace(server.trace_size() - 1).step_id(), last.step_id());
    EXPECT_FALSE(worker.http().empty());
  }
}

TEST(MonitorTest, ATaskThatHasLeftIsDown) {
  TestCluster cluster({{"ps", 1}, {"worker", 1}});
  EXPECT_EQ(TaskOf(StatusOf(cluster, kWorker0), "ps 0").state(), "up");
  cluster.Stop(kPs0);
  // The answers of a round serve for a moment.
  while (TaskOf(StatusOf(cluster, kWorker0), "ps 0").state() == "up") absl::SleepFor(absl::Milliseconds(20));
  const JobStatus job = StatusOf(cluster, kWorker0);
  EXPECT_EQ(TaskOf(job, "ps 0").state(), "down");
  ASSERT_EQ(job.findings_size(), 1);
  EXPECT_TRUE(job.findings(0).stuck());
  EXPECT_THAT(job.findings(0).text(), HasSubstr("ps 0 cannot be reached"));
}

TEST(MonitorTest, ATaskWhoseProgramIsDoneHasFinished) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}});
  EXPECT_EQ(TaskOf(StatusOf(cluster, kPs0), "worker 1").state(), "up");
  ASSERT_OK(AnnounceDone(cluster.target(kWorker1)));
  cluster.Stop(kWorker1);
  while (TaskOf(StatusOf(cluster, kPs0), "worker 1").state() == "up") absl::SleepFor(absl::Milliseconds(20));
  for (const TaskId& asked : {kPs0, kWorker0}) {
    const JobStatus job = StatusOf(cluster, asked);
    EXPECT_EQ(TaskOf(job, "worker 1").state(), "finished");
    EXPECT_EQ(job.findings_size(), 0) << job.findings(0).text();
  }
}

TEST(MonitorTest, ErrorsOfAskJobNameTheAddress) {
  const auto nobody = AskJob("localhost:1", GetMonitorRequest(), absl::Seconds(1));
  EXPECT_THAT(std::string(nobody.status().message()), HasSubstr("localhost:1"));
  EXPECT_EQ(AskJob("nonsense", GetMonitorRequest()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(MonitorTest, AFailedStepIsAnEventAndIsDumped) {
  const TempFolder folder;
  ServerOptions options;
  options.flight_folder = folder.path();
  TestCluster cluster({{"worker", 1}}, {}, TasksIn::kThisProcess, options);
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {-1, -1});
  const Output bad = MatMul(s, x, x);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(kWorker0)}));
  EXPECT_FALSE(session->Run({bad}, {{x, Tensor::Zeros(kFloat, Shape({2, 3}))}}).ok());
  const JobStatus job = StatusOf(cluster, kWorker0);
  ASSERT_GT(TaskOf(job, "worker 0").events_size(), 0);
  EXPECT_EQ(TaskOf(job, "worker 0").events(0).kind(), "step failed");
  EXPECT_EQ(TaskOf(job, "worker 0").failed_steps(), 1);
  ASSERT_OK_AND_ASSIGN(const std::string path, cluster.server(kWorker0).DumpFlightRecorder());
  EXPECT_THAT(path, testing::StartsWith(folder.path()));
  ASSERT_OK_AND_ASSIGN(const std::string text, PosixFileSystem().ReadFileToString(path));
  EXPECT_THAT(text, HasSubstr("step failed"));
}

TEST(MonitorTest, RecordsNothingIfItIsTurnedOff) {
  ServerOptions options;
  options.recorder = false;
  TestCluster cluster({{"worker", 1}}, {}, TasksIn::kThisProcess, options);
  Graph graph;
  const Scope s = graph.root();
  const Output v = RefVariable(s, kFloat, {});
  const Output init = Assign(s, v, Const(s, 1.0f));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(kWorker0)}));
  ASSERT_OK(session->Run({init}).status());
  const JobStatus job = StatusOf(cluster, kWorker0);
  EXPECT_EQ(TaskOf(job, "worker 0").state(), "up");
  EXPECT_EQ(TaskOf(job, "worker 0").steps(), 0);
  EXPECT_EQ(TaskOf(job, "worker 0").trace_size(), 0);
}

}  // namespace
}  // namespace thalweg
