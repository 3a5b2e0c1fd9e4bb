// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cmath>
#include <thread>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/client/cluster_testlib.h"
#include "thalweg/client/session.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Tests of clusters, independent of where the tasks run.
class ClusterTest : public testing::TestWithParam<TasksIn> {};
std::string NameOf(const testing::TestParamInfo<TasksIn>& info) {
  switch (info.param) {
    case TasksIn::kThisProcess:
      return "InThisProcess";
    case TasksIn::kProcesses:
      return "InProcesses";
    case TasksIn::kProcessesOverGrpc:
      return "InProcessesOverGrpc";
    case TasksIn::kProcessesOverTcp:
      return "InProcessesOverTcp";
  }
  return "";
}
INSTANTIATE_TEST_SUITE_P(Tasks, ClusterTest,
                         testing::Values(TasksIn::kThisProcess, TasksIn::kProcesses, TasksIn::kProcessesOverGrpc,
                                         TasksIn::kProcessesOverTcp),
                         NameOf);

TEST_P(ClusterTest, AGraphSpansTasks) {
  TestCluster cluster({{"ps", 2}, {"worker", 2}}, {}, GetParam());
  Graph graph;
  const Scope s = graph.root();
  const Output a = Const(s.WithDevice("/job:ps/task:0"), Tensor::Of<float>({2, 2}, {1, 2, 3, 4}));
  const Output b = Const(s.WithDevice("/job:ps/task:1"), Tensor::Of<float>({2, 2}, {1, 0, 0, 2}));
  const Output x = Placeholder(s.WithDevice("/job:worker/task:1"), kFloat, {2, 2});
  const Output c = MatMul(s.WithDevice("/job:worker/task:0"), a, b);
  const Output d = MatMul(s.WithDevice("/job:worker/task:1"), c, x);
  for (const TaskId& task : {kWorker0, kPs0}) {  // any of them is a master
    ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(task)}));
    ASSERT_OK_AND_ASSIGN(const auto out, session->Run({c, d}, {{x, Tensor::Of<float>({2, 2}, {0, 1, 1, 0})}}));
    EXPECT_THAT(out[0].flat<float>(), ElementsAre(1, 4, 3, 8));
    EXPECT_THAT(out[1].flat<float>(), ElementsAre(4, 1, 8, 3));
  }
}

TEST_P(ClusterTest, VariablesAreSharedBySessionsUnlessTheyAreIsolated) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}}, {}, GetParam());
  Graph graph;
  const Scope ps = graph.root().WithDevice("/job:ps");
  const Output v = RefVariable(ps.WithOpName("v"), kFloat, {});
  const Output init = Assign(ps, v, Scalar(ps, 1));
  const Output add = AssignAdd(graph.root(), v, Scalar(graph.root().WithDevice("/job:worker/task:1"), 2));
  ASSERT_OK_AND_ASSIGN(auto first, Session::Create(graph, {.target = cluster.target(kWorker0)}));
  ASSERT_OK_AND_ASSIGN(auto second, Session::Create(graph, {.target = cluster.target(kWorker1)}));
  ASSERT_OK(first->Run({init}).status());
  ASSERT_OK(second->Run({add}).status());
  ASSERT_OK_AND_ASSIGN(const auto out, first->Run({v}));
  EXPECT_EQ(out[0].scalar<float>(), 3);

  ASSERT_OK_AND_ASSIGN(auto isolated,
                       Session::Create(graph, {.target = cluster.target(kWorker0), .isolate_session_state = true}));
  EXPECT_THAT(isolated->Run({v}), Fails(absl::StatusCode::kFailedPrecondition, "uninitialized"));
}

TEST_P(ClusterTest, ControlEdgesCrossTasks) {
  TestCluster cluster({{"ps", 2}}, {}, GetParam());
  Graph graph;
  const Scope s = graph.root();
  const Output v = RefVariable(s.WithDevice("/job:ps/task:1"), kFloat, {});
  const Output init = Assign(s, v, Scalar(s, 5));
  const Output after = Const(s.WithDevice("/job:ps/task:0").WithControlDependencies({init}), Tensor::Scalar<float>(7));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(kPs0)}));
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({Identity(s.WithDevice("/job:ps/task:0"), after)}));
  EXPECT_EQ(out[0].scalar<float>(), 7);
  ASSERT_OK_AND_ASSIGN(const auto value, session->Run({v}));
  EXPECT_EQ(value[0].scalar<float>(), 5);
}

TEST_P(ClusterTest, AVariableIsReadInAnotherTaskAfterWhatTheReaderWaitsFor) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}}, {}, GetParam());
  Graph graph;
  const Scope ps = graph.root().WithDevice("/job:ps/task:0"), worker = graph.root().WithDevice("/job:worker/task:1");
  const Output v = RefVariable(ps, kFloat, {});
  const Output init = Assign(ps, v, Scalar(ps, 0));
  const Output update = AssignAdd(ps, v, Scalar(ps, 1));
  const Output there = Identity(worker.WithControlDependencies({update}), v);
  const Output again = AssignAdd(ps.WithControlDependencies({there}), v, Scalar(ps, 10));
  const Output twice = Identity(worker.WithControlDependencies({Neg(worker, Neg(worker, again))}), v);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(kWorker0)}));
  ASSERT_OK(session->Run({init}).status());
  for (int step = 0; step < 20; ++step) {
    ASSERT_OK_AND_ASSIGN(const auto out, session->Run({there, twice}));
    EXPECT_EQ(out[0].scalar<float>(), 11 * step + 1);
    EXPECT_EQ(out[1].scalar<float>(), 11 * step + 11);
  }
}

// The barrier of synchronous replicas: another step updates a variable and then releases this one.
TEST_P(ClusterTest, AReadAfterABarrierSeesTheUpdatesOfOtherSteps) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}}, {}, GetParam());
  Graph graph;
  const Scope ps = graph.root().WithDevice("/job:ps/task:0"), worker = graph.root().WithDevice("/job:worker/task:0");
  const Output v = RefVariable(ps, kFloat, {}), started = RefVariable(ps, kFloat, {});
  const Output init = Assign(ps, v, Scalar(ps, 0)), init_started = Assign(ps, started, Scalar(ps, 0));
  const Output barrier = FIFOQueue(ps, {kFloat}, {}, {.shared_name = "barrier"});
  const Output start = AssignAdd(ps, started, Scalar(ps, 1));
  const Output go = QueueDequeue(ps, barrier, {kFloat})[0];
  const Output read = Identity(worker.WithControlDependencies({go}), v);
  const Output update = Assign(ps, v, Scalar(ps, 7));
  const Output open = QueueEnqueue(ps.WithControlDependencies({update}), barrier, {Scalar(ps, 1)});
  ASSERT_OK_AND_ASSIGN(auto replica, Session::Create(graph, {.target = cluster.target(kWorker0)}));
  ASSERT_OK_AND_ASSIGN(auto chief, Session::Create(graph, {.target = cluster.target(kWorker1)}));
  ASSERT_OK(chief->Run({init, init_started}).status());
  absl::StatusOr<std::vector<Tensor>> seen;
  std::thread step([&] { seen = replica->Run({read, start}); });
  for (float value = 0; value < 1;) {
    const auto out = chief->Run({started});
    ASSERT_OK(out.status());
    value = (*out)[0].scalar<float>();
  }
  ASSERT_OK(chief->Run({open}).status());
  step.join();
  ASSERT_OK(seen.status());
  EXPECT_EQ((*seen)[0].scalar<float>(), 7);
}

TEST_P(ClusterTest, ABranchThatIsNotTakenIsDeadInOtherTasks) {
  TestCluster cluster({{"ps", 2}}, {}, GetParam());
  Graph graph;
  const Scope s = graph.root();
  const Scope here = s.WithDevice("/job:ps/task:0"), there = s.WithDevice("/job:ps/task:1");
  const Output pred = Placeholder(here, kBool, Shape());
  Node* branches = here.Add("Switch", {Scalar(here, 3), pred});
  const Output minus = Neg(there, Output(branches, 0));
  const Output square = Square(there, Output(branches, 1));
  const Output merged = here.Add("Merge", {std::vector<Output>{minus, square}});
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(kPs0)}));
  for (const bool taken : {true, false}) {
    ASSERT_OK_AND_ASSIGN(const auto out, session->Run({merged}, {{pred, Tensor::Scalar(taken)}}));
    EXPECT_EQ(out[0].scalar<float>(), taken ? 9 : -3);
  }
}

// i = 0, x = 1; while (i < n) { x = x * 2 in another task; i = i + 1 }
TEST_P(ClusterTest, ALoopSpansTasks) {
  TestCluster cluster({{"ps", 3}}, {}, GetParam());
  Graph graph;
  const Scope s = graph.root().WithDevice("/job:ps/task:0");
  const Output n = Placeholder(s, kFloat, Shape());
  const std::vector<AttrArg> frame{{"frame_name", "loop"}, {"parallel_iterations", 10}};
  const std::vector<AttrArg> constant{{"frame_name", "loop"}, {"is_constant", true}, {"parallel_iterations", 10}};
  const Output limit = s.Add("Enter", {n}, constant);
  const auto merge = [&](const char* name, Output start) {
    const Output enter = s.Add("Enter", {start}, frame);
    return s.WithOpName(name).Add("Merge", {std::vector<Output>{enter, enter}});
  };
  Node* i = merge("i", Scalar(s, 0));
  Node* x = merge("x", Scalar(s, 1));
  const Output go_on = s.Add("LoopCond", {Less(s, Output(i), limit)});
  Node* i_switch = s.Add("Switch", {Output(i), go_on});
  Node* x_switch = s.Add("Switch", {Output(x), go_on});
  const Scope body = s.WithControlDependencies({Identity(s, Output(i_switch, 1))});
  const Output i_next = Add(s, Output(i_switch, 1), Scalar(body, 1));
  // Twice as large, each half in a task of its own.
  const Output half = Identity(s.WithDevice("/job:ps/task:1"), Output(x_switch, 1));
  const Output other = Identity(s.WithDevice("/job:ps/task:2"), Output(x_switch, 1));
  const Output x_next = Add(s, half, other);
  i->set_input(1, s.Add("NextIteration", {i_next}));
  x->set_input(1, s.Add("NextIteration", {x_next}));
  const Output exit = s.Add("Exit", {Output(x_switch, 0)});
  ASSERT_OK(graph.build_status());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(kPs0)}));
  for (const float count : {0, 1, 10}) {
    ASSERT_OK_AND_ASSIGN(const auto out, session->Run({exit}, {{n, Tensor::Scalar<float>(count)}}));
    EXPECT_EQ(out[0].scalar<float>(), std::exp2(count)) << count;
  }
}

TEST_P(ClusterTest, ErrorsNameTheTaskAndTheNode) {
  TestCluster cluster({{"ps", 1}, {"worker", 1}}, {}, GetParam());
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s.WithDevice("/job:worker"), kFloat, {-1});
  const Output r = Reshape(s.WithDevice("/job:ps").WithOpName("r"), x, Const(s, Tensor::Vector<int32_t>({3})));
  const Output y = Neg(s.WithDevice("/job:worker"), r);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(kWorker0)}));
  const auto out = session->Run({y}, {{x, Tensor::Vector<float>({1, 2})}});
  EXPECT_THAT(out, Fails(absl::StatusCode::kInvalidArgument, "[[{{node r}}]]"));
  EXPECT_THAT(std::string(out.status().message()), HasSubstr("From /job:"));
  EXPECT_THAT(session->Run({"nothing:0"}), Fails(absl::StatusCode::kNotFound, "nothing"));
}

TEST_P(ClusterTest, ATaskThatStopsFailsTheStepsThatNeedItAndIsNamed) {
  TestCluster cluster({{"ps", 2}, {"worker", 1}}, {}, GetParam());
  Graph graph;
  const Scope s = graph.root();
  const Output v0 = Identity(s.WithDevice("/job:ps/task:0"), Scalar(s.WithDevice("/job:worker"), 1));
  const Output v1 = Identity(s.WithDevice("/job:ps/task:1"), Scalar(s.WithDevice("/job:worker"), 2));
  const Output x = Placeholder(s.WithDevice("/job:worker"), kFloat, {});
  const Output y0 = Add(s.WithDevice("/job:ps/task:0"), v0, x);
  const Output y1 = Add(s.WithDevice("/job:ps/task:1"), v1, x);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(kWorker0)}));
  const std::vector<Feed> feed{{x, Tensor::Scalar<float>(1)}};
  ASSERT_OK(session->Run({y0, y1}, feed).status());
  cluster.Stop(kPs1);
  EXPECT_THAT(session->Run({y0, y1}, feed), Fails(absl::StatusCode::kUnavailable, "/job:ps/replica:0/task:1"));
  ASSERT_OK(session->Run({y0}, feed).status());  // needs only the other

  // A new session does not wait for a task that has left; what needs it fails.
  ASSERT_OK_AND_ASSIGN(auto second, Session::Create(graph, {.target = cluster.target(kWorker0)}));
  ASSERT_OK(second->Run({y0}, feed).status());
  EXPECT_THAT(second->Run({y1}, feed), Fails(absl::StatusCode::kUnavailable, "/job:ps/replica:0/task:1"));

  // One that took its place has not seen this session.
  cluster.Start(kPs1);
  const auto out = [&] {  // the connection may need a moment
    for (;;) {
      const absl::Status status = session->Run({y1}, feed).status();
      if (!absl::IsUnavailable(status)) return status;
    }
  }();
  EXPECT_THAT(out, Fails(absl::StatusCode::kAborted, "restarted"));
  ASSERT_OK_AND_ASSIGN(auto third, Session::Create(graph, {.target = cluster.target(kWorker0)}));
  ASSERT_OK(third->Run({y0, y1}, feed).status());
}

TEST_P(ClusterTest, ASessionWaitsForTasksThatHaveNotStarted) {
  TestCluster cluster({{"ps", 1}, {"worker", 1}}, /*later=*/{kPs0}, GetParam());
  Graph graph;
  const Output x = Identity(graph.root().WithDevice("/job:ps"), Scalar(graph.root().WithDevice("/job:worker"), 1));
  ASSERT_OK_AND_ASSIGN(auto filtered,
                       Session::Create(graph, {.target = cluster.target(kWorker0), .device_filters = {"/job:worker"}}));
  std::atomic<bool> made{false};
  std::thread client([&] {
    const auto session = Session::Create(graph, {.target = cluster.target(kWorker0)});
    made = true;
    ASSERT_OK(session.status());
    EXPECT_THAT((*session)->Run({x}).status(), IsOk());
  });
  EXPECT_FALSE(made);
  cluster.Start(kPs0);
  client.join();
}

TEST_P(ClusterTest, ATaskThatOthersHaveSeenLeaveIsNotWaitedFor) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}}, /*later=*/{kWorker1}, GetParam());
  Graph graph;
  const Output x = Scalar(graph.root().WithDevice("/job:ps"), 1);
  {
    const std::vector<std::string> filters{"/job:ps", "/job:worker/task:0"};
    ASSERT_OK_AND_ASSIGN(auto first,
                         Session::Create(graph, {.target = cluster.target(kWorker0), .device_filters = filters}));
    ASSERT_OK(first->Run({x}).status());
  }
  cluster.Stop(kWorker0);  // before worker 1 has come
  cluster.Start(kWorker1);
  ASSERT_OK_AND_ASSIGN(auto second, Session::Create(graph, {.target = cluster.target(kWorker1)}));
  ASSERT_OK(second->Run({x}).status());
}

TEST_P(ClusterTest, ATaskThatHasJustStartedIsReachedByAllOthers) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}}, /*later=*/{kWorker1}, GetParam());
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s.WithDevice("/job:worker/task:1"), kFloat, {});
  const Output y = Neg(s.WithDevice("/job:ps"), Neg(s.WithDevice("/job:worker/task:1"), x));
  // Leaves ps with a failed attempt to connect to worker 1. On a machine that is
  // busy the time may be over before there was one.
  absl::Status failed;
  while (!absl::StrContains(failed.message(), "/job:worker/replica:0/task:1")) {
    failed =
        Session::Create(graph, {.target = cluster.target(kPs0), .operation_timeout = absl::Milliseconds(100)}).status();
    ASSERT_THAT(failed, Fails(absl::StatusCode::kDeadlineExceeded, "CreateSession had 100 ms"));
  }
  cluster.Start(kWorker1);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(kWorker1)}));
  ASSERT_OK(session->Run({y}, {{x, Tensor::Scalar<float>(1)}}).status());
}

TEST_P(ClusterTest, ClosingASessionEndsItsSteps) {
  TestCluster cluster({{"ps", 1}, {"worker", 1}}, {}, GetParam());
  Graph graph;
  const Scope s = graph.root();
  const Output queue = FIFOQueue(s.WithDevice("/job:ps"), {kFloat});
  const Output size = QueueSize(s, queue);
  const Output value = Neg(s.WithDevice("/job:worker"), QueueDequeue(s.WithDevice("/job:ps"), queue, {kFloat})[0]);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(kWorker0)}));
  ASSERT_OK(session->Run({size}).status());
  absl::Status ended;
  std::thread step([&] { ended = session->Run({value}).status(); });
  EXPECT_THAT(session->Run({value}, {}, {.timeout = absl::Milliseconds(50)}),
              Fails(absl::StatusCode::kDeadlineExceeded, "Timed out"));
  ASSERT_OK(session->Close());
  step.join();
  EXPECT_THAT(ended, testing::AnyOf(Fails(absl::StatusCode::kCancelled, "Session::Close()"),
                                    Fails(absl::StatusCode::kFailedPrecondition, "closed"),
                                    Fails(absl::StatusCode::kAborted, "is not found")));
  EXPECT_THAT(session->Run({size}), Fails(absl::StatusCode::kFailedPrecondition, "closed"));
}

TEST_P(ClusterTest, AVariableIsInOneTaskForAllSteps) {
  TestCluster cluster({{"ps", 2}}, {}, GetParam());
  Graph graph;
  const Scope s = graph.root();
  Node* v = s.Add("VarHandleOp", {}, {{"shape", Shape()}, {"dtype", kFloat}});
  const Output init = s.Add("AssignVariableOp", {v->out(), Const(s, 1.f)});
  const Output update = s.WithDevice("/job:ps/task:1").Add("AssignAddVariableOp", {v->out(), Const(s, 1.f)});
  const Output read = s.Add("ReadVariableOp", {v->out()}, {{"dtype", kFloat}});
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(kPs0)}));
  ASSERT_OK(session->Run({Fetch::Target(init)}).status());
  ASSERT_OK(session->Run({Fetch::Target(update)}).status());
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({read}));
  EXPECT_EQ(out[0].scalar<float>(), 2);
}

TEST_P(ClusterTest, ATensorMayBeFetchedTwice) {
  TestCluster cluster({{"ps", 2}}, {}, GetParam());
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s.WithDevice("/job:ps/task:0"), kFloat, {});
  const Output y = Neg(s.WithDevice("/job:ps/task:1"), x);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(kPs0)}));
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({y, x, y, y}, {{x, Tensor::Scalar(2.f)}}));
  ASSERT_EQ(out.size(), 4);
  for (const int i : {0, 2, 3}) EXPECT_EQ(out[i].scalar<float>(), -2);
  EXPECT_EQ(out[1].scalar<float>(), 2);
}

TEST_P(ClusterTest, LargeTensorsCross) {
  TestCluster cluster({{"ps", 2}}, {}, GetParam());
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s.WithDevice("/job:ps/task:0"), kFloat, {-1});
  const Output y = Neg(s.WithDevice("/job:ps/task:1"), x);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(kPs0)}));
  Tensor big(kFloat, {1 << 22});  // 16 MB: more than gRPC's own limit
  for (int i = 0; i < big.num_elements(); ++i) big.mutable_data<float>()[i] = static_cast<float>(i);
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({y}, {{x, big}}));
  ASSERT_EQ(out[0].num_elements(), big.num_elements());
  EXPECT_EQ(out[0].flat<float>()[12345], -12345);
}

TEST_P(ClusterTest, ManyClientsAtOnce) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}}, {}, GetParam());
  Graph graph;
  const Scope s = graph.root();
  const Output v = VarHandle(s.WithDevice("/job:ps"), kFloat, Shape(), {.shared_name = "v"});
  const Output init = AssignVariable(s, v, Scalar(s, 0));
  const Output add = AssignAddVariable(s, v, Scalar(s.WithDevice("/job:worker/task:1"), 1));
  const Output read = ReadVariable(s, v, kFloat);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(kWorker0)}));
  ASSERT_OK(session->Run({init}).status());
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const auto own = Session::Create(graph, {.target = cluster.target(t % 2 == 0 ? kWorker0 : kWorker1)});
      ASSERT_OK(own.status());
      for (int i = 0; i < 50; ++i) ASSERT_OK((*own)->Run({add}).status());
    });
  }
  for (std::thread& t : threads) t.join();
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({read}));
  EXPECT_EQ(out[0].scalar<float>(), 400);
}

}  // namespace
}  // namespace thalweg
