// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/session/coordinator.h"

#include "gmock/gmock.h"
#include "thalweg/base/clock_testlib.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/runtime/session_testlib.h"
#include "thalweg/train/layers/variable.h"
#include "thalweg/train/session/queue_runner.h"
#include "thalweg/train/session/wait_backoff.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

TEST(CoordinatorTest, StopsAllWithTheFirstError) {
  Coordinator c;
  Notification failed;
  c.Start("waits", [&]() -> absl::Status {
    EXPECT_TRUE(c.WaitForStop(absl::Minutes(1)));
    failed.WaitForNotification();
    return Internal("because of the other");
  });
  c.Start("fails", [&] {
    c.RequestStop(DataLoss("torn"));
    failed.Notify();
    return absl::OkStatus();
  });
  EXPECT_EQ(c.Join().ToString(), "DATA_LOSS: torn");
  EXPECT_EQ(c.status().ToString(), "DATA_LOSS: torn");
}

TEST(CoordinatorTest, TheEndOfTheDataIsNoError) {
  Coordinator c;
  c.Start("reads", [] { return OutOfRange("no more"); });
  EXPECT_TRUE(c.WaitForStop(absl::Minutes(1)));
  EXPECT_TRUE(c.Join().ok());
}

TEST(CoordinatorTest, NamesThreadsThatDoNotStop) {
  Notification go;
  Coordinator c;
  EXPECT_FALSE(c.WaitForStop(absl::Milliseconds(1)));
  c.Start("stuck", [&] {
    go.WaitForNotification();
    return absl::OkStatus();
  });
  c.RequestStop();
  const absl::Status status = c.Join(absl::Milliseconds(1));
  EXPECT_EQ(status.ToString(), "DEADLINE_EXCEEDED: threads that did not stop within 1ms: stuck");
  go.Notify();
}

TEST(WaitBackoffTest, GivesUpInTheEnd) {
  FakeClock clock;
  WaitBackoff backoff(absl::Seconds(30), nullptr, clock);
  int pauses = 0;
  absl::Status status;
  for (absl::Duration before; (status = backoff.Pause("for Godot")).ok(); before = backoff.waited()) {
    EXPECT_LE(backoff.waited(), std::max(before + absl::Milliseconds(5), 1.13 * before));
    ++pauses;
  }
  EXPECT_EQ(status.ToString(), "DEADLINE_EXCEEDED: gave up after 30s: for Godot");
  EXPECT_GT(pauses, 100) << "pauses stay short";
}

struct Numbers {
  // Counts up to `limit` into a queue.
  explicit Numbers(int64_t limit) {
    const Var next = MakeVariable(s, "next", {}, {.initializer = initializers::Zeros(), .dtype = kInt64});
    queue = FIFOQueue(s, {kInt64}, {Shape()}, {.capacity = 2});
    runner = MakeQueueRunner(s, queue, {QueueEnqueue(s, queue, {CountUpTo(s, next.ref, limit)})});
    take = QueueDequeue(s, queue, {kInt64})[0];
    init = InitializeVariables(s);
  }
  Graph graph;
  Scope s = graph.root();
  Output queue, take, init;
  QueueRunner runner;
};

TEST(QueueRunnerTest, FillsUntilTheDataEnds) {
  Numbers n(5);
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(n.graph));
  ASSERT_OK(session->Run({n.init}).status());
  Coordinator c;
  StartQueueRunners({n.runner}, *session, c);
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ((*session->Run({n.take}))[0].scalar<int64_t>(), i);
  EXPECT_TRUE(absl::IsOutOfRange(session->Run({n.take}).status())) << "the queue is closed";
  EXPECT_TRUE(c.Join().ok());
}

TEST(QueueRunnerTest, AStopEndsAWaitForRoom) {
  Numbers n(1000);
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(n.graph));
  ASSERT_OK(session->Run({n.init}).status());
  Coordinator c;
  StartQueueRunners({n.runner}, *session, c);
  ASSERT_OK(session->Run({n.take}).status());
  c.RequestStop();
  EXPECT_TRUE(c.Join(absl::Minutes(1)).ok());
}

TEST(QueueRunnerTest, CarriesErrors) {
  Numbers n(5);
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(n.graph));
  Coordinator c;
  StartQueueRunners({n.runner}, *session, c);  // nothing is initialized
  EXPECT_TRUE(c.WaitForStop(absl::Minutes(1)));
  EXPECT_THAT(c.Join().ToString(), HasSubstr("FAILED_PRECONDITION: queue runner FIFOQueueV2: "));
  EXPECT_FALSE(session->Run({n.take}).ok()) << "does not wait for what never comes";
}

}  // namespace
}  // namespace thalweg
