// SPDX-License-Identifier: Apache-2.0
// Updates of numbered steps, and of steps that were given up.
#include <signal.h>

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/client/cluster_testlib.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"

namespace thalweg {
namespace {

// A counter on each of two parameter servers.
struct Counters {
  explicit Counters(bool resources = false) {
    for (int i = 0; i < 2; ++i) {
      const Scope s = graph.root().WithDevice(absl::StrCat("/job:ps/task:", i));
      const Output one = Const(s, 1.0f), zero = Const(s, 0.0f);
      if (resources) {
        const Output v =
            s.WithOpName(absl::StrCat("r", i)).Add("VarHandleOp", {}, {{"dtype", kFloat}, {"shape", Shape()}});
        init.push_back(s.Add("AssignVariableOp", {v, zero}));
        update.push_back(s.Add("AssignAddVariableOp", {v, one}));
        read.push_back(s.Add("ReadVariableOp", {v}, {{"dtype", kFloat}}));
      } else {
        const Output v = RefVariable(s.WithOpName(absl::StrCat("v", i)), kFloat, {});
        init.push_back(Assign(s, v, zero));
        update.push_back(AssignAdd(s, v, one));
        read.push_back(Identity(s, v));
      }
    }
  }
  std::vector<float> Read(Session& session) const {
    const auto out = session.Run({read[0], read[1]});
    EXPECT_TRUE(out.ok()) << out.status();
    if (!out.ok()) return {};
    return {(*out)[0].scalar<float>(), (*out)[1].scalar<float>()};
  }
  Graph graph;
  std::vector<Output> init, update, read;
};

using testing::ElementsAre;

class ExactlyOnceTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Variables, ExactlyOnceTest, testing::Bool());

TEST_P(ExactlyOnceTest, ARepeatedStepAppliesWhatItHasNotApplied) {
  TestCluster cluster({{"ps", 2}, {"worker", 1}});
  Counters c(GetParam());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(c.graph, {.target = cluster.target({"worker", 0})}));
  ASSERT_OK(session->Run({c.init[0], c.init[1]}).status());
  const auto run = [&](const std::vector<Fetch>& fetches, int64_t sequence, uint64_t client = 7) {
    return session->Run(fetches, {}, {.client = client, .sequence = sequence}).status();
  };
  const std::vector<Fetch> both = {c.update[0], c.update[1]};
  ASSERT_OK(run({c.update[0]}, 1));  // the other part was lost
  EXPECT_THAT(c.Read(*session), ElementsAre(1, 0));
  ASSERT_OK(run(both, 1));
  ASSERT_OK(run(both, 1));
  EXPECT_THAT(c.Read(*session), ElementsAre(1, 1));
  ASSERT_OK(run(both, 2));
  ASSERT_OK(run(both, 1));  // late: the client is at another step
  EXPECT_THAT(c.Read(*session), ElementsAre(2, 2));
  ASSERT_OK(run(both, 1, /*client=*/8));
  ASSERT_OK(session->Run(both).status());  // not numbered
  ASSERT_OK(session->Run(both).status());
  EXPECT_THAT(c.Read(*session), ElementsAre(5, 5));
  // A new session belongs to the same client.
  ASSERT_OK_AND_ASSIGN(session, Session::Create(c.graph, {.target = cluster.target({"worker", 0})}));
  ASSERT_OK(run(both, 2));
  EXPECT_THAT(c.Read(*session), ElementsAre(5, 5));
  // Other values, as from a checkpoint, do not have what was applied.
  ASSERT_OK(session->Run({c.init[0], c.init[1]}).status());
  ASSERT_OK(run(both, 2));
  EXPECT_THAT(c.Read(*session), ElementsAre(1, 1));
}

// A parameter server that is stopped, declared dead, and resumes.
class FencingTest : public testing::TestWithParam<TasksIn> {};
INSTANTIATE_TEST_SUITE_P(Transports, FencingTest,
                         testing::Values(TasksIn::kProcesses, TasksIn::kProcessesOverGrpc, TasksIn::kProcessesOverTcp));

TEST_P(FencingTest, AStepThatWasGivenUpIsNotAppliedLater) {
  TestCluster cluster({{"ps", 2}, {"worker", 1}}, {}, GetParam(), {.peer_timeout = absl::Seconds(1)});
  Graph graph;
  const Scope s = graph.root();
  const Scope ps = s.WithDevice("/job:ps/task:0"), worker = s.WithDevice("/job:worker/task:0");
  const Output v = RefVariable(ps.WithOpName("v"), kFloat, {});
  const Output init = Assign(ps, v, Const(ps, 0.0f));
  const Output read = Identity(ps, v);
  // One that needs nothing of others, and one that waits for the worker.
  const Output alone = AssignAdd(ps, v, Const(ps, 1.0f));
  const Output x = Placeholder(worker, kFloat, Shape());
  const Output together = AssignAdd(ps, v, Add(worker, x, Identity(worker, v)));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target({"worker", 0})}));
  ASSERT_OK_AND_ASSIGN(auto other, Session::Create(graph, {.target = cluster.target({"ps", 1})}));
  const std::vector<Feed> feeds = {{x, Tensor::Scalar<float>(1)}};
  ASSERT_OK(session->Run({init}).status());
  ASSERT_OK(session->Run({alone}).status());
  ASSERT_OK(session->Run({together}, feeds).status());  // 1 + 1 + 1
  ASSERT_OK(other->Run({read}).status());
  for (int i = 0; i < 3; ++i) {
    cluster.Signal({"ps", 0}, SIGSTOP);
    std::vector<std::thread> clients;
    for (const Output& step : {alone, together, alone}) {
      clients.emplace_back([&, step] {
        EXPECT_THAT(session->Run({Fetch::Target(step)}, step == together ? feeds : std::vector<Feed>()),
                    Fails(absl::StatusCode::kUnavailable, "/job:ps/replica:0/task:0"));
      });
    }
    for (std::thread& client : clients) client.join();
    cluster.Signal({"ps", 0}, SIGCONT);
    ASSERT_OK_AND_ASSIGN(const auto value, other->Run({read}));
    EXPECT_EQ(value[0].scalar<float>(), 3) << "in round " << i;
  }
  ASSERT_OK_AND_ASSIGN(const auto value, session->Run({alone}));
  EXPECT_EQ(value[0].scalar<float>(), 4);
}

}  // namespace
}  // namespace thalweg
