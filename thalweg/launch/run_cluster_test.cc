// SPDX-License-Identifier: Apache-2.0
#include "thalweg/launch/run_cluster.h"

#include <atomic>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/client/session.h"
#include "thalweg/client/task_completion.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/ops/array_ops.h"

namespace thalweg {
namespace {

// A job of one task on a port that is free.
Job Alone(const std::string& job) {
  Job alone;
  EXPECT_TRUE(alone.cluster.AddTask({job, 0}, "localhost:0").ok());
  alone.task = {job, 0};
  return alone;
}

TEST(RunTask, AWorkerRunsTheFunctionOnItsServer) {
  int calls = 0;
  EXPECT_TRUE(RunTask(Alone("worker"), [&](const Job& job, const Server& server) {
                ++calls;
                EXPECT_EQ(job.task.job, "worker");
                Graph graph;
                const Output x = Const(graph.root(), 7);
                const auto session = Session::Create(graph, {.target = server.target()});
                if (!session.ok()) return session.status();
                const auto out = (*session)->Run({x});
                EXPECT_EQ(out->at(0).scalar<int>(), 7);
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(calls, 1);
}

TEST(RunTask, ItsErrorIsTheResult) {
  EXPECT_THAT(RunTask(Alone("worker"), [](const Job&, const Server&) { return DataLoss("no data"); }),
              Fails(absl::StatusCode::kDataLoss, "no data"));
}

TEST(RunTask, ServerOptionsAreThoseOfTheServer) {
  EXPECT_TRUE(RunTask(Alone("worker"),
                      [](const Job&, const Server& server) {
                        Graph graph;
                        const auto session = Session::Create(graph, {.target = server.target()});
                        if (!session.ok()) return session.status();
                        const auto devices = (*session)->ListDevices();
                        EXPECT_EQ(devices->size(), 3u);
                        return devices.status();
                      },
                      {.server = {.cpu_devices = 3}})
                  .ok());
}

TEST(RunTask, AParameterServerServesUntilTheJobIsOver) {
  // Ports that are free now: servers of their own find some.
  const auto free_port = [] { return (*Server::StartLocal())->port(); };
  ClusterSpec cluster;
  ASSERT_OK(cluster.AddTask({"ps", 0}, absl::StrCat("localhost:", free_port())));
  ASSERT_OK(cluster.AddTask({"worker", 0}, absl::StrCat("localhost:", free_port())));
  std::atomic<bool> ps_called{false};
  std::thread ps([&] {
    Job job;
    job.cluster = cluster;
    job.task = {"ps", 0};
    EXPECT_TRUE(RunTask(job, [&](const Job&, const Server&) {
                  ps_called = true;
                  return absl::OkStatus();
                }).ok());
  });
  Job job;
  job.cluster = cluster;
  job.task = {"worker", 0};
  EXPECT_TRUE(RunTask(job, [&](const Job&, const Server& server) {
                Graph graph;
                const Output x = Const(graph.root().WithDevice("/job:ps/task:0"), 3);
                const auto session = Session::Create(graph, {.target = server.target()});
                if (!session.ok()) return session.status();
                const auto out = (*session)->Run({x});
                EXPECT_TRUE(out.ok()) << out.status();
                return AnnounceDone(server.target());
              }).ok());
  ps.join();
  EXPECT_FALSE(ps_called) << "parameter servers do not run the function";
}

TEST(RunCluster, SaysWhatIsWrongWithTheJob) {
  std::string program = "program", bad = "--task_index=x", name = "--job_name=worker", hosts = "--worker_hosts=a:1";
  char* argv[] = {program.data(), name.data(), bad.data(), hosts.data(), nullptr};
  EXPECT_EQ(RunCluster(4, argv, [](const Job&, const Server&) { return absl::OkStatus(); }),
            static_cast<int>(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace thalweg
