// SPDX-License-Identifier: Apache-2.0
// Tasks that are killed while steps run: whatever the moment, a client hears of
// it soon, and a cluster whose task was started again works.
#include <signal.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/client/cluster_testlib.h"
#include "thalweg/client/raw_caller_testlib.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/proto/master.pb.h"

namespace thalweg {
namespace {

constexpr absl::Duration kKillTimeout = absl::Seconds(30);

// A step as training has it: variables of two parameter servers go to a worker,
// updates come back.
struct Model {
  Graph graph;
  Output init, update, sum;

  explicit Model(int worker) {
    const Scope s = graph.root();
    const Scope w = s.WithDevice(absl::StrCat("/job:worker/task:", worker));
    std::vector<Output> inits, updates;
    sum = Const(w, Tensor::Scalar<float>(0));
    for (int i = 0; i < 2; ++i) {
      const Scope ps = s.WithDevice(absl::StrCat("/job:ps/task:", i));
      const Output v = RefVariable(ps.WithOpName(absl::StrCat("v", i)), kFloat, {1000});
      inits.push_back(Assign(ps, v, Const(ps, Tensor(kFloat, {1000}))));
      const Output gradient = Add(w, Identity(w, v), Const(w, Tensor::Scalar<float>(1)));
      updates.push_back(AssignSub(ps, v, gradient));
      sum = Add(w, sum, ReduceMean(w, gradient));
    }
    init = NoOp(w.WithControlDependencies(inits));
    update = NoOp(w.WithControlDependencies(updates));
  }
};

// Steps of a worker's client until one fails; what it failed with.
absl::Status TrainUntilAnError(const Model& model, const std::string& target, std::atomic<int>* steps) {
  const auto session = Session::Create(model.graph, {.target = target});
  if (!session.ok()) return session.status();
  for (;;) {
    const auto out = (*session)->Run({model.update, model.sum}, {}, {.timeout = kKillTimeout});
    if (!out.ok()) return out.status();
    ++*steps;
  }
}

class KillTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Seeds, KillTest, testing::Range(1, 9));

TEST_P(KillTest, AClientHearsOfItAndTheClusterGoesOn) {
  std::mt19937 random(GetParam());
  // Only broken connections end a step, not its duration.
  TestCluster cluster({{"ps", 2}, {"worker", 2}}, {}, TasksIn::kProcesses, {.peer_timeout = absl::Hours(1)});
  const Model model(0), other(1);
  const TaskId w0{"worker", 0}, w1{"worker", 1};
  {
    const auto session = Session::Create(model.graph, {.target = cluster.target(w0)});
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE((*session)->Run({model.init}).ok());
  }
  std::atomic<int> steps{0}, other_steps{0};
  absl::Status status, other_status;
  Notification ended, other_ended;
  std::thread client([&] {
    status = TrainUntilAnError(model, cluster.target(w0), &steps);
    ended.Notify();
  });
  std::thread other_client([&] {
    other_status = TrainUntilAnError(other, cluster.target(w1), &other_steps);
    other_ended.Notify();
  });

  // Kill at a random moment, after some steps and in the middle of one.
  const int first = 1 + static_cast<int>(random() % 200);
  while ((steps < first || other_steps == 0) && !ended.HasBeenNotified()) std::this_thread::yield();
  const std::vector<TaskId> tasks = cluster.spec().tasks();
  const TaskId victim = tasks[random() % tasks.size()];
  for (const absl::Time until = absl::Now() + absl::Microseconds(random() % 2000); absl::Now() < until;) {
  }
  SCOPED_TRACE(absl::StrCat("killed ", victim.ToString(), " in step ", first));
  cluster.Stop(victim);

  const auto expect = [&](const absl::Status& s) { EXPECT_TRUE(absl::IsUnavailable(s) || absl::IsAborted(s)) << s; };
  if (victim != w1) {
    ASSERT_TRUE(ended.WaitForNotificationWithTimeout(2 * kKillTimeout)) << "the client hangs";
    expect(status);
  }
  if (victim != w0) {
    ASSERT_TRUE(other_ended.WaitForNotificationWithTimeout(2 * kKillTimeout)) << "the client hangs";
    expect(other_status);
  }
  // The other worker continues as long as the parameter servers run.
  if (victim.job == "worker") {
    std::atomic<int>& count = victim == w0 ? other_steps : steps;
    const int before = count;
    Notification& mine = victim == w0 ? other_ended : ended;
    while (count < before + 10 && !mine.HasBeenNotified()) std::this_thread::yield();
    EXPECT_GE(count, before + 10) << (victim == w0 ? other_status : status);
  }

  cluster.Start(victim);
  const auto again = Session::Create(model.graph, {.target = cluster.target(w0)});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE((*again)->Run({model.init}).ok());
  const auto out = (*again)->Run({model.update, model.sum});
  EXPECT_TRUE(out.ok()) << out.status();

  for (const TaskId& task : tasks) cluster.Stop(task);  // ends a client that still runs
  client.join();
  other_client.join();
}

// A task that is there but does not answer any more.
TEST(HangTest, StepsEndByTheirDeadlineOrWhenTheTaskIsTakenForDead) {
  TestCluster cluster({{"ps", 2}, {"worker", 2}}, {}, TasksIn::kProcesses, {.peer_timeout = absl::Seconds(3)});
  const Model model(0);
  const auto session = Session::Create(model.graph, {.target = cluster.target({"worker", 0})});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({model.init}).ok());
  ASSERT_TRUE((*session)->Run({model.update}).ok());
  cluster.Signal({"ps", 1}, SIGSTOP);
  EXPECT_THAT((*session)->Run({model.update}, {}, {.timeout = absl::Milliseconds(300)}),
              Fails(absl::StatusCode::kDeadlineExceeded, ""));
  EXPECT_THAT((*session)->Run({model.update}, {}, {.timeout = kKillTimeout}),
              Fails(absl::StatusCode::kUnavailable, "/job:ps/replica:0/task:1 has not answered"));
  cluster.Signal({"ps", 1}, SIGCONT);
  EXPECT_TRUE((*session)->Run({model.update}).ok());
}

// A step whose parts have not been compiled yet, and the others of its session.
TEST(HangTest, PreparationEndsWhenTheTaskIsTakenForDead) {
  TestCluster cluster({{"ps", 2}, {"worker", 1}}, {}, TasksIn::kProcesses, {.peer_timeout = absl::Seconds(1)});
  const Model model(0);
  const auto session = Session::Create(model.graph, {.target = cluster.target({"worker", 0})});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({model.init}).ok());
  cluster.Signal({"ps", 1}, SIGSTOP);
  std::thread new_step([&] {
    EXPECT_THAT((*session)->Run({model.update}),
                Fails(absl::StatusCode::kUnavailable, "/job:ps/replica:0/task:1 has not answered for 1s"));
  });
  EXPECT_TRUE((*session)->Run({"v0"}).ok()) << "it does not need that task";
  new_step.join();
  cluster.Signal({"ps", 1}, SIGCONT);
  EXPECT_TRUE((*session)->Run({model.update}).ok());
}

TEST(HangTest, APartialRunEndsWhenTheTaskIsTakenForDead) {
  const std::string master = "/tensorflow.MasterService/";
  TestCluster cluster({{"ps", 2}, {"worker", 1}}, {}, TasksIn::kProcesses, {.peer_timeout = absl::Seconds(1)});
  Graph graph;
  const Scope ps = graph.root().WithDevice("/job:ps/task:1");
  Neg(ps.WithOpName("y"), Placeholder(ps.WithOpName("x"), kFloat, {}));
  RawCaller caller(cluster.target({"worker", 0}).substr(std::string("grpc://").size()));
  tensorflow::CreateSessionRequest create;
  tensorflow::CreateSessionResponse session;
  *create.mutable_graph_def() = graph.Export();
  ASSERT_OK(caller.Call(master + "CreateSession", create, &session));
  const auto set_up = [&] {
    tensorflow::PartialRunSetupRequest request;
    tensorflow::PartialRunSetupResponse response;
    request.set_session_handle(session.session_handle());
    request.add_feed("x:0");
    request.add_fetch("y:0");
    EXPECT_THAT(caller.Call(master + "PartialRunSetup", request, &response), IsOk());
    return response.partial_run_handle();
  };
  const auto run = [&](const std::string& handle) {
    tensorflow::RunStepRequest request;
    request.set_session_handle(session.session_handle());
    request.set_partial_run_handle(handle);
    auto* const feed = request.add_feed();
    feed->set_name("x:0");
    feed->mutable_tensor()->set_dtype(tensorflow::DT_FLOAT);
    feed->mutable_tensor()->mutable_tensor_shape();
    feed->mutable_tensor()->add_float_val(1);
    request.add_fetch("y:0");
    tensorflow::RunStepResponse response;
    return caller.Call(master + "RunStep", request, &response);
  };
  const std::string first = set_up(), second = set_up();
  EXPECT_THAT(run(first), IsOk());
  cluster.Signal({"ps", 1}, SIGSTOP);
  EXPECT_THAT(run(second), Fails(absl::StatusCode::kUnavailable, "/job:ps/replica:0/task:1 has not answered for 1s"));
  cluster.Signal({"ps", 1}, SIGCONT);
}

// All tasks have seen it before.
TEST(HangTest, ANewSessionDoesNotWaitForATaskThatHangs) {
  TestCluster cluster({{"ps", 2}, {"worker", 1}}, {}, TasksIn::kProcesses, {.peer_timeout = absl::Seconds(1)});
  const Model model(0);
  const auto session = Session::Create(model.graph, {.target = cluster.target({"worker", 0})});
  ASSERT_OK(session.status());
  ASSERT_OK((*session)->Run({model.init}).status());
  cluster.Signal({"ps", 1}, SIGSTOP);
  const auto other = Session::Create(model.graph, {.target = cluster.target({"worker", 0})});
  ASSERT_OK(other.status());
  EXPECT_THAT((*other)->Run({"v0"}).status(), IsOk());
  EXPECT_THAT((*other)->Run({model.update}).status(),
              Fails(absl::StatusCode::kUnavailable, "/job:ps/replica:0/task:1 has left"));
  cluster.Signal({"ps", 1}, SIGCONT);
}

TEST(HangTest, AClientHearsThatItsServerHangs) {
  TestCluster cluster({{"ps", 1}, {"worker", 1}}, {}, TasksIn::kProcesses);
  Graph graph;
  const Output x = Const(graph.root().WithDevice("/job:worker/task:0"), Tensor::Scalar<float>(1));
  const auto session = Session::Create(graph, {.target = cluster.target({"worker", 0})});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run({x}).ok());
  cluster.Signal({"worker", 0}, SIGSTOP);
  EXPECT_THAT((*session)->Run({x}), Fails(absl::StatusCode::kUnavailable, cluster.target({"worker", 0})));
  cluster.Signal({"worker", 0}, SIGCONT);
  EXPECT_TRUE((*session)->Run({x}).ok());
}

TEST(HangTest, AnOpenThatFailsNamesItsTarget) {
  const Model model(0);
  EXPECT_THAT(Session::Create(model.graph, {.target = "grpc://localhost:1", .open_timeout = absl::Milliseconds(100)}),
              Fails(absl::StatusCode::kDeadlineExceeded, "opening a session on grpc://localhost:1"));
}

}  // namespace
}  // namespace thalweg
