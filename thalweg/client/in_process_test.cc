// SPDX-License-Identifier: Apache-2.0
// Sessions on the server of their own process, which call the master directly, and callables of masters.
#include <thread>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/notification.h"
#include "thalweg/client/cluster_testlib.h"
#include "thalweg/client/session.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/rpc/in_process_master.h"
#include "thalweg/server/server.h"

namespace thalweg {
namespace {

using absl::StatusCode;

// The same server by its target, which is called directly, and by another name of its address, which is called over a
// link as one of another process.
enum class Called { kDirectly, kOverLink };

std::string TargetOf(const Server& server, Called called) {
  return called == Called::kDirectly ? server.target() : absl::StrCat("grpc://127.0.0.1:", server.port());
}

class CallableTest : public testing::TestWithParam<Called> {};
INSTANTIATE_TEST_SUITE_P(Called, CallableTest, testing::Values(Called::kDirectly, Called::kOverLink));

TEST(InProcessTest, ValuesAreNotCopied) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::StartLocal());
  Graph graph;
  const Output x = Placeholder(graph.root(), kFloat, Shape({1000}));
  const Output y = Identity(graph.root(), x);
  const Tensor fed(kFloat, Shape({1000}));
  for (const Called called : {Called::kDirectly, Called::kOverLink}) {
    ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = TargetOf(*server, called)}));
    ASSERT_OK_AND_ASSIGN(const auto step, session->Prepare({y}, {x}));
    ASSERT_OK_AND_ASSIGN(const auto fetched, step.Run({fed}));
    EXPECT_EQ(fetched[0].data<float>() == fed.data<float>(), called == Called::kDirectly);
    ASSERT_OK_AND_ASSIGN(const auto by_names, session->Run({y}, {{x, fed}}));
    EXPECT_EQ(by_names[0].data<float>() == fed.data<float>(), called == Called::kDirectly);
  }
}

TEST(InProcessTest, ASessionFindsTheServerThatFollowsItsOwn) {
  TestCluster cluster({{"worker", 1}});
  Graph graph;
  const Output one = Const(graph.root(), 1.0f);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target({"worker", 0})}));
  ASSERT_OK_AND_ASSIGN(const auto step, session->Prepare({one}));
  ASSERT_OK(step.Run({}).status());
  cluster.Stop({"worker", 0});
  EXPECT_THAT(step.Run({}), Fails(StatusCode::kUnavailable, "session on grpc://"));
  EXPECT_THAT(session->Run({one}), Fails(StatusCode::kUnavailable, "session on grpc://"));
  cluster.Start({"worker", 0});
  EXPECT_THAT(step.Run({}), Fails(StatusCode::kAborted, "is not found"));
  EXPECT_THAT(session->Run({one}), Fails(StatusCode::kAborted, "is not found"));
}

TEST(InProcessTest, AStoppedServerEndsTheStepsThatWait) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::StartLocal());
  Graph graph;
  const Output queue = FIFOQueue(graph.root(), {kFloat});
  const auto taken = QueueDequeue(graph.root(), queue, {kFloat});
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = server->target()}));
  ASSERT_OK_AND_ASSIGN(const auto step, session->Prepare({taken[0]}));
  Notification begins;
  std::thread waiter([&] {
    begins.Notify();
    EXPECT_FALSE(step.Run({}).ok());
  });
  begins.WaitForNotification();
  server->Stop();
  waiter.join();
}

TEST(InProcessTest, AMasterIsFoundWhileItsServerRuns) {
  std::string address;
  {
    ASSERT_OK_AND_ASSIGN(auto server, Server::StartLocal());
    address = server->target().substr(7);
    const auto master = InProcessMaster::Find(address);
    ASSERT_NE(master, nullptr);
    EXPECT_TRUE(InProcessMaster::Use(master.get()));
    server->Stop();
    EXPECT_FALSE(InProcessMaster::Use(master.get()));
  }
  EXPECT_EQ(InProcessMaster::Find(address), nullptr);
  EXPECT_FALSE(InProcessMaster::Use(nullptr));
}

TEST_P(CallableTest, HasTheOptionsOfEachStep) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::StartLocal());
  Graph graph;
  const Output v = RefVariable(graph.root().WithOpName("v"), kFloat, {});
  const Output init = Assign(graph.root(), v, Const(graph.root(), 0.0f));
  const Output x = Placeholder(graph.root(), kFloat, Shape());
  const Output update = AssignAdd(graph.root(), v, x);
  const Output queue = FIFOQueue(graph.root(), {kFloat});
  const auto taken = QueueDequeue(graph.root(), queue, {kFloat});
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = TargetOf(*server, GetParam())}));
  ASSERT_OK(session->Run({init}).status());
  ASSERT_OK_AND_ASSIGN(const auto step, session->Prepare({update}, {x}));
  const Tensor one = Tensor::Scalar(1.0f);
  const auto run = [&](const RunOptions& options) { return (*step.Run({one}, options))[0].scalar<float>(); };
  EXPECT_EQ(run({}), 1);
  EXPECT_EQ(run({.client = 5, .sequence = 1}), 2);
  EXPECT_EQ(run({.client = 5, .sequence = 1}), 2);  // repeated: not applied again
  EXPECT_EQ(run({.client = 5, .sequence = 2}), 3);
  RunMetadata metadata;
  ASSERT_OK(step.Run({one}, {.trace = true}, &metadata).status());
  EXPECT_GT(metadata.proto().step_stats().dev_stats_size(), 0);
  RunMetadata nothing;
  ASSERT_OK(step.Run({one}, {}, &nothing).status());
  EXPECT_EQ(nothing.proto().step_stats().dev_stats_size(), 0);
  EXPECT_THAT(step.Run({}), Fails(StatusCode::kInvalidArgument, "expected 1 feeds, got 0"));

  ASSERT_OK_AND_ASSIGN(const auto waits, session->Prepare({taken[0]}));
  EXPECT_THAT(waits.Run({}, {.timeout = absl::Milliseconds(50)}), Fails(StatusCode::kDeadlineExceeded, ""));
  Cancellation cancellation;
  std::thread canceller([&] { cancellation.Cancel(absl::CancelledError("no longer needed")); });
  EXPECT_THAT(waits.Run({}, {.cancellation = &cancellation}), Fails(StatusCode::kCancelled, "no longer needed"));
  canceller.join();
  ASSERT_OK(session->Close());
  EXPECT_THAT(step.Run({one}), Fails(StatusCode::kFailedPrecondition, "closed"));
}

TEST_P(CallableTest, AStepThatCannotBePreparedFailsAsWithoutACallable) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::StartLocal());
  Graph graph;
  const Output x = Placeholder(graph.root(), kFloat, Shape());
  const Output elsewhere = Identity(graph.root().WithDevice("/job:nobody/task:3"), x);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = TargetOf(*server, GetParam())}));
  ASSERT_OK_AND_ASSIGN(const auto step, session->Prepare({elsewhere}, {x}));
  const Tensor one = Tensor::Scalar(1.0f);
  const absl::Status by_names = session->Run({elsewhere}, {{x, one}}).status();
  EXPECT_FALSE(by_names.ok());
  EXPECT_EQ(step.Run({one}).status(), by_names);
  EXPECT_EQ(step.Run({one}).status(), by_names);
}

}  // namespace
}  // namespace thalweg
