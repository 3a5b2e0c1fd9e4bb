// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/replicas/sync_replicas.h"

#include <atomic>
#include <cmath>
#include <map>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/notification.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/proto/summary.pb.h"
#include "thalweg/train/optimizers/optimizers.h"
#include "thalweg/train/replicas/replica_device_setter.h"
#include "thalweg/train/replicas/replica_identity_testlib.h"
#include "thalweg/train/session/monitored_session.h"
#include "thalweg/train/session/summary.h"

namespace thalweg {
namespace {

using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

TestReplica::MakeOptimizer Sync(const SyncReplicasOptions& options) {
  return [=] { return SyncReplicas(Momentum({.learning_rate = 0.05, .momentum = 0.5}), options); };
}

// The input of worker i in step k.
float X(int i, int k) { return std::sin(static_cast<float>(3 * i + 7 * k)); }

// One process, the mean of the losses of `workers(k)` workers in step k.
std::vector<float> MeanOfAll(int steps, const std::function<int(int)>& workers) {
  Graph graph;
  const Scope s = graph.root();
  const TestModel first(s);
  // The model once more, of the same variables, for each worker.
  const Output x = Placeholder(s, kFloat, {-1, 2}), n = Placeholder(s, kFloat, Shape());
  const Output rows = Gather(s, first.table, Const(s, {1, 3, 1}));
  const Output dense = Mul(s, ReduceSum(s, Square(s, Sub(s, first.w, x))), Const(s, 0.5f));
  const Output products = ReduceSum(s, Mul(s, ExpandDims(s, x, 1), rows), {1, 2});
  const Output loss = RealDiv(s, Add(s, dense, ReduceSum(s, Square(s, products))), n);
  const Output train = Momentum({.learning_rate = 0.05, .momentum = 0.5})->Minimize(s, loss);
  const Output init = InitializeVariables(s);
  auto session = Session::Create(graph);
  EXPECT_TRUE(session.ok()) << session.status();
  EXPECT_TRUE((*session)->Run({init}).ok());
  for (int k = 0; k < steps; ++k) {
    Tensor xs(kFloat, Shape({workers(k), 2}));
    for (int i = 0; i < workers(k); ++i) {
      xs.mutable_data<float>()[2 * i] = X(i, k);
      xs.mutable_data<float>()[2 * i + 1] = -X(i, k);
    }
    const auto out = (*session)->Run({train}, {{x, xs}, {n, Tensor::Scalar<float>(static_cast<float>(workers(k)))}});
    EXPECT_TRUE(out.ok()) << out.status();
  }
  std::vector<float> values;
  const auto out = (*session)->Run({first.w.read, first.table.read});
  for (const Tensor& t : *out) values.insert(values.end(), t.flat<float>().begin(), t.flat<float>().end());
  return values;
}

// Runs `steps(i)` steps of each worker on its own thread, and ends it. `values` and `ledger` are those
// of the chief at its end.
struct Outcome {
  std::vector<float> values;
  int64_t global_step = 0;
  GradientLedger ledger;
};
Outcome Train(TestCluster& cluster, int workers, const std::function<int(int)>& steps,
              const SyncReplicasOptions& options) {
  std::vector<std::unique_ptr<TestReplica>> replicas;
  for (int i = 0; i < workers; ++i) replicas.push_back(std::make_unique<TestReplica>(&cluster, i, Sync(options)));
  for (auto& replica : replicas) replica->Start();
  TestReplica reader(&cluster, 0, Sync(options));  // its hooks are not called
  reader.session = *Session::Create(reader.graph, {.target = cluster.target({"ps", 0})});
  std::vector<std::thread> threads;
  for (int i = 0; i < workers; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < steps(i) && !testing::Test::HasFailure(); ++k) replicas[i]->Step(X(i, k), -X(i, k));
      replicas[i]->End();
    });
  }
  for (std::thread& thread : threads) thread.join();
  Outcome outcome{.values = reader.Values(), .global_step = reader.GlobalStep()};
  const auto ledger = ReadLedger(*reader.session, reader.graph);
  EXPECT_TRUE(ledger.ok()) << ledger.status();
  if (ledger.ok()) outcome.ledger = *ledger;
  return outcome;
}

TEST(SyncReplicas, IsTrainingOnTheMean) {
  TestCluster cluster({{"ps", 2}, {"worker", 2}});
  const Outcome outcome =
      Train(cluster, 2, [](int) { return 6; }, {.replicas_to_aggregate = 2, .total_num_replicas = 2});
  EXPECT_EQ(outcome.global_step, 6);
  EXPECT_THAT(outcome.values, Pointwise(FloatNear(1e-5), MeanOfAll(6, [](int) { return 2; })));
  EXPECT_EQ(outcome.ledger.accepted(), 2 * 2 * 6);
  EXPECT_EQ(outcome.ledger.stale(), 0);
  EXPECT_EQ(outcome.ledger.ToString(),
            "step 6, 2 gradients a step\n"
            "worker      accepted       stale  last step\n"
            "0                 12           0          5\n"
            "1                 12           0          5\n"
            "all               24           0\n");
}

TEST(SyncReplicas, AChiefBesideTheWorkersIsOneOfThem) {
  TestCluster cluster({{"ps", 1}, {"chief", 1}, {"worker", 1}});
  const auto sync = Sync({.replicas_to_aggregate = 2, .total_num_replicas = 2});
  TestReplica chief(&cluster, TaskId{"chief", 0}, sync), worker(&cluster, TaskId{"worker", 0}, sync);
  chief.Start();
  worker.Start();
  std::thread other([&] {
    for (int k = 0; k < 4; ++k) worker.Step(X(0, k), -X(0, k));
    worker.End();
  });
  for (int k = 0; k < 4; ++k) chief.Step(X(1, k), -X(1, k));
  EXPECT_EQ(chief.GlobalStep(), 4);
  EXPECT_THAT(chief.Values(), Pointwise(FloatNear(1e-5), MeanOfAll(4, [](int) { return 2; })));
  other.join();
  chief.End();
}

TEST(SyncReplicas, TwoTasksOfOneNumberAreRefused) {
  TestCluster cluster({{"ps", 1}, {"chief", 1}, {"worker", 1}});
  const auto sync = Sync({.replicas_to_aggregate = 1, .total_num_replicas = 1});  // without the chief
  TestReplica chief(&cluster, TaskId{"chief", 0}, sync), worker(&cluster, TaskId{"worker", 0}, sync);
  chief.Start();
  const absl::Status status = worker.TryStart();
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("worker 0 of the training is /job:chief/task:0, and /job:worker/task:0 "
                                           "comes with the same number"));
}

TEST(SyncReplicas, WhoEndsLeavesTheOthersGoOn) {
  TestCluster cluster({{"ps", 2}, {"worker", 3}});
  // The chief is the first to end, and stays until the others have.
  const Outcome outcome =
      Train(cluster, 3, [](int i) { return 2 + 2 * i; }, {.replicas_to_aggregate = 3, .total_num_replicas = 3});
  EXPECT_EQ(outcome.global_step, 6);
  EXPECT_EQ(outcome.ledger.accepted(), 2 * (2 + 4 + 6));
  EXPECT_EQ(outcome.ledger.stale(), 0);
}

TEST(SyncReplicas, TheMeanIsOfThoseWhoAreLeft) {
  TestCluster cluster({{"ps", 2}, {"worker", 2}});
  const Outcome outcome =
      Train(cluster, 2, [](int i) { return i == 0 ? 6 : 3; }, {.replicas_to_aggregate = 2, .total_num_replicas = 2});
  EXPECT_EQ(outcome.global_step, 6);
  EXPECT_THAT(outcome.values, Pointwise(FloatNear(1e-5), MeanOfAll(6, [](int k) { return k < 3 ? 2 : 1; })));
  // The same servers once more: everyone is expected again.
  const Outcome again = Train(cluster, 2, [](int) { return 4; }, {.replicas_to_aggregate = 2, .total_num_replicas = 2});
  EXPECT_THAT(again.values, Pointwise(FloatNear(1e-5), MeanOfAll(4, [](int) { return 2; })));
}

TEST(SyncReplicas, GradientsOfLateWorkersAreRefusedAndCounted) {
  TestCluster cluster({{"ps", 2}, {"worker", 2}});
  const SyncReplicasOptions options = {.replicas_to_aggregate = 1, .total_num_replicas = 2};
  TestReplica fast(&cluster, 0, Sync(options)), slow(&cluster, 1, Sync(options));
  fast.Start();
  slow.Start();
  for (int k = 0; k < 3; ++k) fast.Step(X(0, k), -X(0, k));
  EXPECT_EQ(fast.GlobalStep(), 3);
  EXPECT_THAT(fast.Values(), Pointwise(FloatNear(1e-5), MeanOfAll(3, [](int) { return 1; })));
  slow.Step(100, 100);  // a gradient of step 0
  EXPECT_EQ(fast.GlobalStep(), 3);
  EXPECT_THAT(fast.Values(), Pointwise(FloatNear(1e-5), MeanOfAll(3, [](int) { return 1; })));
  slow.Step(0, 0);
  EXPECT_EQ(fast.GlobalStep(), 4);
  auto ledger = ReadLedger(*slow.session, slow.graph);
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  ASSERT_EQ(ledger->workers.size(), 2u);
  EXPECT_EQ(ledger->workers[0].accepted, 6);
  EXPECT_EQ(ledger->workers[0].stale, 0);
  EXPECT_EQ(ledger->workers[1].accepted, 2);
  EXPECT_EQ(ledger->workers[1].stale, 2);
  EXPECT_EQ(slow.Read(slow.graph.FindNode("sync_replicas/stale")).scalar<int64_t>(), 2);
  EXPECT_EQ(slow.Read(slow.graph.FindNode("sync_replicas/accepted")).scalar<int64_t>(), 8);
  // In TensorBoard, the totals, and steps of each worker.
  std::map<std::string, float> told;
  for (const std::string& name : slow.graph.Collection(summary::kSummaries)) {
    tensorflow::Summary value;
    ASSERT_TRUE(value.ParseFromString(slow.Read(slow.graph.FindNode(name)).scalar<std::string>()));
    told[value.value(0).tag()] = value.value(0).simple_value();
  }
  EXPECT_THAT(told, testing::ElementsAre(testing::Pair("sync_replicas/accepted_gradients", 8),
                                         testing::Pair("sync_replicas/stale_gradients", 2),
                                         testing::Pair("sync_replicas/worker_0/accepted_steps", 3),
                                         testing::Pair("sync_replicas/worker_0/stale_steps", 0),
                                         testing::Pair("sync_replicas/worker_1/accepted_steps", 1),
                                         testing::Pair("sync_replicas/worker_1/stale_steps", 1)));
  EXPECT_EQ(ledger->ToString(),
            "step 4, 2 gradients a step\n"
            "worker      accepted       stale  last step\n"
            "0                  6           0          2\n"
            "1                  2           2          3\n"
            "all                8           2\n");
  slow.End();
  fast.End();
}

TEST(SyncReplicas, EachWorkerGivesSeveral) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}});
  const Outcome outcome =
      Train(cluster, 2, [](int) { return 4; }, {.replicas_to_aggregate = 4, .total_num_replicas = 2});
  EXPECT_GE(outcome.global_step, 2);
  EXPECT_EQ(outcome.ledger.accepted() + outcome.ledger.stale(), 2 * 8);
}

// On a machine that is busy a worker may be taken for lost that is only slow: it
// is back with its next gradient, and until then the chief makes steps without it.
TEST(SyncReplicas, AWorkerThatIsLostIsExpelledAndMayComeBack) {
  TestCluster cluster({{"ps", 2}, {"worker", 2}});
  const SyncReplicasOptions options = {
      .replicas_to_aggregate = 2, .total_num_replicas = 2, .expel_after = absl::Milliseconds(200)};
  TestReplica chief(&cluster, 0, Sync(options)), lost(&cluster, 1, Sync(options));
  const auto present = [&] {
    const auto ledger = ReadLedger(*chief.session, chief.graph);
    EXPECT_TRUE(ledger.ok()) << ledger.status();
    return ledger.ok() && ledger->workers[1].present;
  };
  const auto step_together = [&] {
    std::atomic<bool> ended = false;
    std::thread other([&] {
      lost.Step(1, 1);
      ended = true;
    });
    while (!ended && !testing::Test::HasFailure()) chief.Step(1, 1);
    other.join();
  };
  chief.Start();
  lost.Start();
  step_together();
  lost.Close();  // without a word
  while (present() && !testing::Test::HasFailure()) chief.Step(1, 1);
  const int64_t step = chief.GlobalStep();
  chief.Step(1, 1);
  EXPECT_GT(chief.GlobalStep(), step);
  lost.Start();
  do step_together();
  while (!present() && !testing::Test::HasFailure());
  lost.End();
  chief.End();
}

// As if its process had been stopped then. All accumulators have to be asked who is missing.
TEST(SyncReplicas, AWorkerThatIsLostBetweenTwoGradientsIsExpelled) {
  TestCluster cluster({{"ps", 2}, {"worker", 2}});
  const SyncReplicasOptions options = {
      .replicas_to_aggregate = 2, .total_num_replicas = 2, .expel_after = absl::Milliseconds(200)};
  TestReplica chief(&cluster, 0, Sync(options)), lost(&cluster, 1, Sync(options));
  chief.Start();
  lost.Start();
  const auto& nodes = lost.graph.nodes();
  const auto push = std::find_if(nodes.begin(), nodes.end(), [](const auto& node) {
    return absl::EndsWith(node->op(), "AccumulatorApplyGradient");
  });
  ASSERT_TRUE(push != nodes.end());
  const auto pushed = lost.session->Run({Output(push->get())}, {{lost.model->x, Tensor::Vector<float>({1, 1})}});
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  lost.Close();
  chief.Step(1, 1);
  const auto ledger = ReadLedger(*chief.session, chief.graph);
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  EXPECT_FALSE(ledger->workers[1].present);
  EXPECT_EQ(ledger->workers[1].accepted, 1);
  chief.End();
}

TEST(SyncReplicas, AChiefThatComesAgainTakesUpTheTraining) {
  TestCluster cluster({{"ps", 2}, {"worker", 2}});
  const SyncReplicasOptions options = {.replicas_to_aggregate = 2, .total_num_replicas = 2};
  auto chief = std::make_unique<TestReplica>(&cluster, 0, Sync(options));
  TestReplica worker(&cluster, 1, Sync(options));
  chief->Start();
  worker.Start();
  std::thread other([&] {
    for (int k = 0; k < 4; ++k) worker.Step(1, 1);
    worker.End();
  });
  chief->Step(1, 1);
  chief.reset();  // while the other waits for it, or is about to
  chief = std::make_unique<TestReplica>(&cluster, 0, Sync(options));
  chief->Start();  // initializes the variables anew, too
  for (int k = 0; k < 3; ++k) chief->Step(1, 1);
  chief->End();
  other.join();
}

// A chief that is away cannot say that everybody waits for it.
TEST(SyncReplicas, AWorkerSaysWhomItWaitsFor) {
  TestCluster cluster({{"ps", 2}, {"worker", 2}});
  const SyncReplicasOptions options = {
      .replicas_to_aggregate = 2, .total_num_replicas = 2, .log_after = absl::Milliseconds(50)};
  TestReplica worker(&cluster, 1, Sync(options));
  auto chief = std::make_unique<TestReplica>(&cluster, 0, Sync(options));
  chief->Start();
  worker.Start();
  static Notification* const said = new Notification;
  static std::string* const line = new std::string;
  SetLogSink([](LogLevel, const std::string& text) {
    if (!absl::StrContains(text, "has waited for") || said->HasBeenNotified()) return;
    *line = text;
    said->Notify();
  });
  chief.reset();  // without a word
  std::thread waits([&] { worker.Step(1, 1); });
  EXPECT_TRUE(said->WaitForNotificationWithTimeout(absl::Seconds(30)));
  SetLogSink(nullptr);
  EXPECT_THAT(*line, testing::ContainsRegex("step 0 has waited for .* for gradients of worker 0"));
  chief = std::make_unique<TestReplica>(&cluster, 0, Sync(options));
  chief->Start();
  chief->Step(1, 1);
  waits.join();
  worker.End();
  chief->End();
}

// As if a worker had been killed while it left, or its message to the accumulators overtaken by an older one.
TEST(SyncReplicas, AccumulatorsThatMissedALeaverAreTold) {
  TestCluster cluster({{"ps", 2}, {"worker", 2}});
  const SyncReplicasOptions options = {
      .replicas_to_aggregate = 2, .total_num_replicas = 2, .log_after = absl::Milliseconds(50)};
  TestReplica chief(&cluster, 0, Sync(options)), worker(&cluster, 1, Sync(options));
  chief.Start();
  worker.Start();
  worker.End();
  Node* const joins = chief.graph.FindNode("sync_replicas/joins");
  Node* const member = chief.graph.FindNode("sync_replicas/member");
  ASSERT_TRUE(joins != nullptr && member != nullptr);
  const auto told = chief.session->Run({Output(joins)}, {{Output(member), Tensor::Scalar<int64_t>(1)}});
  ASSERT_TRUE(told.ok()) << told.status();
  chief.Step(1, 1);
  EXPECT_EQ(chief.GlobalStep(), 1);
  chief.End();
}

TEST(SyncReplicas, AStragglerFindsTheEnd) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}});
  const SyncReplicasOptions options = {
      .replicas_to_aggregate = 2, .total_num_replicas = 2, .chief_wait = absl::Milliseconds(100)};
  TestReplica chief(&cluster, 0, Sync(options)), straggler(&cluster, 1, Sync(options));
  chief.Start();
  straggler.Start();
  chief.End();  // the straggler has not made a step for so long
  const absl::Status status = straggler.TryStep(1, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
}

TEST(SyncReplicas, WhatFailsInARoundIsTheChiefsError) {
  TestCluster cluster({{"ps", 2}, {"worker", 2}});
  const SyncReplicasOptions options = {.replicas_to_aggregate = 2, .total_num_replicas = 2};
  TestReplica chief(&cluster, 0, Sync(options)), worker(&cluster, 1, Sync(options));
  chief.Start();
  worker.Start();
  std::thread other([&] { worker.TryStep(1, 1).IgnoreError(); });
  cluster.Stop({"ps", 1});
  const absl::Status status = chief.TryStep(1, 1);
  // The error of its own step, or of the round.
  EXPECT_THAT(status.ToString(), testing::AllOf(testing::AnyOf(HasSubstr("UNAVAILABLE"), HasSubstr("CANCELLED")),
                                                HasSubstr("/job:ps/replica:0/task:1")));
  other.join();
}

// Gradients are sent, taken and applied, and the global step counted, on two parameter servers.
TEST(SyncReplicas, WhatIsCutOffIsCompletedOnce) {
  TestCluster cluster({{"ps", 2}, {"worker", 1}});
  Graph graph;
  const TaskId task{"worker", 0};
  const Scope s = graph.root().WithDevice(ReplicaDeviceSetter({.cluster = cluster.spec(), .worker = task}));
  const Var a = MakeVariable(s, "a", {}, {.initializer = initializers::Zeros()});
  const Var b = MakeVariable(s, "b", {}, {.initializer = initializers::Zeros()});
  const auto optimizer = SyncReplicas(GradientDescent({.learning_rate = 1}), {.replicas_to_aggregate = 1});
  const Var step = GetOrCreateGlobalStep(s);
  const Output train_op = optimizer->Minimize(s, Neg(s, Add(s, a, b)), {.global_step = step});
  auto session = MonitoredTrainingSession::Start(
      graph, {.master = cluster.target(task), .hooks = optimizer->Hooks(true), .log_step_count_steps = 0});
  ASSERT_TRUE(session.ok()) << session.status();
  std::atomic<int> passed = 0;
  SetFailPointHandler([&](absl::string_view point, absl::string_view) {
    return point == "worker.apply" && ++passed % 7 == 0 ? absl::UnavailableError("injected") : absl::OkStatus();
  });
  const absl::Cleanup switch_off = [] { SetFailPointHandler(nullptr); };
  for (int k = 1; k <= 10; ++k) {
    const auto out = session->Run({train_op});
    ASSERT_TRUE(out.ok()) << out.status();
  }
  EXPECT_GT(passed, 5 * 10);
  const auto values = session->session().Run({a.read, b.read, step.read});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].scalar<float>(), 10);
  EXPECT_EQ((*values)[1].scalar<float>(), 10);
  EXPECT_EQ((*values)[2].scalar<int64_t>(), 10);
}

// In a new session it would be too late for a checkpoint that the chief is writing, which waits for all of the round.
TEST(SyncReplicas, ARoundThatIsCutOffIsCompletedInItsSession) {
  TestCluster cluster({{"ps", 2}, {"worker", 1}});
  Graph graph;
  const TaskId task{"worker", 0};
  const Scope s = graph.root().WithDevice(ReplicaDeviceSetter({.cluster = cluster.spec(), .worker = task}));
  const Var a = MakeVariable(s, "a", {}, {.initializer = initializers::Zeros()});
  const Var b = MakeVariable(s, "b", {}, {.initializer = initializers::Zeros()});
  const auto optimizer = SyncReplicas(GradientDescent({.learning_rate = 1}), {.replicas_to_aggregate = 1});
  const Output train_op = optimizer->Minimize(s, Neg(s, Add(s, a, b)), {.global_step = GetOrCreateGlobalStep(s)});
  struct CountSessions final : Hook {
    absl::Status AfterCreateSession(Session&) override {
      ++sessions;
      return absl::OkStatus();
    }
    int sessions = 0;
  };
  const auto counter = std::make_shared<CountSessions>();
  std::vector<std::shared_ptr<Hook>> hooks = optimizer->Hooks(true);
  hooks.push_back(counter);
  auto session = MonitoredTrainingSession::Start(
      graph, {.master = cluster.target(task), .hooks = hooks, .log_step_count_steps = 0});
  ASSERT_TRUE(session.ok()) << session.status();
  // A step first updates the two accumulators. Then the round updates the variables and the global step.
  std::atomic<int> updates = 0;
  SetFailPointHandler([&](absl::string_view point, absl::string_view) {
    return point == "worker.apply" && ++updates == 4 ? absl::UnavailableError("injected") : absl::OkStatus();
  });
  const absl::Cleanup switch_off = [] { SetFailPointHandler(nullptr); };
  for (int k = 1; k <= 2; ++k) {
    const auto out = session->Run({train_op});
    ASSERT_TRUE(out.ok()) << out.status();
  }
  EXPECT_GT(updates, 2 * (2 + 3));
  EXPECT_EQ(counter->sessions, 1);
  const auto values = session->session().Run({a.read, b.read});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].scalar<float>(), 2);
  EXPECT_EQ((*values)[1].scalar<float>(), 2);
}

// The chief's own step waits for the round, and must learn that the round has failed.
TEST(SyncReplicas, AFailedRoundEndsTheChiefsStepThoughCallsAreLost) {
  TestCluster cluster({{"ps", 2}, {"worker", 1}});
  Graph graph;
  const TaskId task{"worker", 0};
  const Scope s = graph.root().WithDevice(ReplicaDeviceSetter({.cluster = cluster.spec(), .worker = task}));
  const Var a = MakeVariable(s, "a", {}, {.initializer = initializers::Zeros()});
  const auto optimizer = SyncReplicas(GradientDescent({.learning_rate = 1}), {.replicas_to_aggregate = 1});
  const Output train_op = optimizer->Minimize(s, Neg(s, a), {.global_step = GetOrCreateGlobalStep(s)});
  auto session = MonitoredTrainingSession::Start(
      graph, {.master = cluster.target(task), .hooks = optimizer->Hooks(true), .log_step_count_steps = 0});
  ASSERT_TRUE(session.ok()) << session.status();
  // When the gradient has arrived, the chief's master is asked for the round, three times, and then to wake the step.
  std::atomic<bool> arrived = false;
  std::atomic<int> asked = 0;
  SetFailPointHandler([&](absl::string_view point, absl::string_view) {
    if (point == "worker.apply") arrived = true;
    const bool fails = point == "master.run_step" && arrived && ++asked <= 5;
    return fails ? absl::UnavailableError("injected") : absl::OkStatus();
  });
  const absl::Cleanup switch_off = [] { SetFailPointHandler(nullptr); };
  for (int k = 0; k < 3; ++k) {  // the round is repeated in a new session
    const auto out = session->Run({train_op});
    ASSERT_TRUE(out.ok()) << out.status();
  }
  EXPECT_GT(asked, 5);
  const auto value = session->session().Run({a.read});
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ((*value)[0].scalar<float>(), 3) << "every step that was acknowledged is applied";
}

TEST(SyncReplicas, WithoutACluster) {
  TestReplica replica(nullptr, 0, Sync({.replicas_to_aggregate = 1}));
  replica.Start();
  for (int k = 0; k < 3; ++k) replica.Step(X(0, k), -X(0, k));
  EXPECT_THAT(replica.Values(), Pointwise(FloatNear(1e-5), MeanOfAll(3, [](int) { return 1; })));
  EXPECT_TRUE(replica.optimizer->GetSlot(replica.model->w, "momentum"));
  replica.End();
}

TEST(SyncReplicas, WrongUses) {
  const auto error = [](const SyncReplicasOptions& options, bool with_step) {
    Graph graph;
    const Scope s = graph.root();
    const TestModel model(s);
    SyncReplicas(GradientDescent(), options)
        ->Minimize(s, model.loss, {.global_step = with_step ? GetOrCreateGlobalStep(s) : Var()});
    return std::string(s.status().message());
  };
  EXPECT_THAT(error({.replicas_to_aggregate = 2}, false), HasSubstr("a global step is needed"));
  EXPECT_THAT(error({.replicas_to_aggregate = 0}, true), HasSubstr("replicas_to_aggregate is 0"));
  EXPECT_EQ(error({.replicas_to_aggregate = 2}, true), "");
  Graph graph;
  const auto optimizer = SyncReplicas(GradientDescent(), {});
  EXPECT_THAT(optimizer->Hooks(true)[0]->Begin(graph.root()).message(), HasSubstr("before Minimize()"));
  auto session = Session::Create(graph);
  EXPECT_EQ(ReadLedger(**session, graph).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace thalweg
