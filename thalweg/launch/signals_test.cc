// SPDX-License-Identifier: Apache-2.0
#include "thalweg/launch/signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/server/server.h"
#include "thalweg/train/session/monitored_session.h"

namespace thalweg {
namespace {

TEST(SignalsTest, TheFirstCallsAllThatListen) {
  Notification first, second;
  const OnSignal one([&](int signal) { signal == SIGTERM ? first.Notify() : void(); });
  const OnSignal two([&](int) { second.Notify(); });
  raise(SIGTERM);
  EXPECT_TRUE(first.WaitForNotificationWithTimeout(absl::Seconds(60)));
  EXPECT_TRUE(second.WaitForNotificationWithTimeout(absl::Seconds(60)));
}

TEST(SignalsTest, AServerThatWaitsLeaves) {
  auto server = Server::StartLocal();
  ASSERT_THAT(server, IsOk());
  const OnSignal drain([&](int) { (*server)->Drain(); });
  raise(SIGINT);
  EXPECT_THAT((*server)->Join(), IsOk());
}

TEST(SignalsTest, EachRequestForADumpIsServed) {
  std::atomic<int> dumps{0};
  {
    const OnDumpSignal one([&] { ++dumps; });
    const OnDumpSignal two([&] { ++dumps; });
    raise(SIGUSR1);
    while (dumps < 2) absl::SleepFor(absl::Milliseconds(1));
    raise(SIGUSR1);
    while (dumps < 4) absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(dumps, 4) << "a request was served twice";
}

TEST(SignalsTest, TheSecondEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a process that was started, not forked: it starts a thread
  const auto raise_twice = [] {
    Notification never;
    const OnSignal stuck([&](int) { never.WaitForNotification(); });
    raise(SIGTERM);
    raise(SIGTERM);
    _exit(1);
  };
  EXPECT_EXIT(raise_twice(), testing::KilledBySignal(SIGTERM), "");
}

TEST(SignalsTest, ATrainingStopsAfterItsStep) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Const(s, 1.0f);
  auto session = MonitoredTrainingSession::Start(graph, {.hooks = {StopOnSignal()}});
  ASSERT_THAT(session, IsOk());
  ASSERT_THAT(session->Run({x}), IsOk());
  EXPECT_FALSE(session->ShouldStop());
  raise(SIGTERM);
  while (!session->ShouldStop()) ASSERT_THAT(session->Run({x}), IsOk());
  EXPECT_THAT(session->Close(), IsOk());
}

// A step that cannot end by itself.
TEST(SignalsTest, AStepThatWaitsIsCancelled) {
  Graph graph;
  const Scope s = graph.root();
  const Output queue = FIFOQueue(s, {kFloat}, {Shape()});
  const Output never = QueueDequeue(s, queue, {kFloat})[0];
  auto session = MonitoredTrainingSession::Start(graph, {.hooks = {StopOnSignal()}});
  ASSERT_THAT(session, IsOk());
  raise(SIGTERM);
  EXPECT_THAT(session->Run({never}).status(), Fails(absl::StatusCode::kCancelled, "interrupted: Terminated"));
  EXPECT_TRUE(session->ShouldStop());
  EXPECT_THAT(session->Close(), IsOk());
}

// The other tasks of the cluster never start.
TEST(SignalsTest, AWaitForOtherTasksEnds) {
  ClusterSpec cluster;
  ASSERT_THAT(cluster.AddTask({"ps", 0}, "localhost:1"), IsOk());
  ASSERT_THAT(cluster.AddTask({"worker", 0}, "localhost:0"), IsOk());
  auto server = Server::Start(cluster, {"worker", 0});
  ASSERT_THAT(server, IsOk());
  Graph graph;
  Const(graph.root().WithDevice("/job:ps/task:0"), 1.0f);
  const std::shared_ptr<Hook> hook = StopOnSignal();
  raise(SIGTERM);
  EXPECT_THAT(MonitoredTrainingSession::Start(graph, {.master = (*server)->target(), .hooks = {hook}}).status(),
              Fails(absl::StatusCode::kCancelled, "interrupted: Terminated"));
}

}  // namespace
}  // namespace thalweg
