// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/session/monitored_session.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/thread.h"
#include "thalweg/client/cluster_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/runtime/session_testlib.h"
#include "thalweg/train/session/file_hooks.h"
#include "thalweg/train/session/monitored_session_testlib.h"
#include "thalweg/train/session/summary.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Options = MonitoredTrainingSessionOptions;

TEST_F(MonitoredSessionTest, TrainsAndGoesOnWhereItStopped) {
  for (const int64_t last : {10, 10, 15}) {
    ScalarModel m;
    ASSERT_OK_AND_ASSIGN(auto session, MonitoredTrainingSession::Start(
                                           m.graph, {.checkpoint_dir = folder_, .hooks = {StopAtStep(last)}}));
    EXPECT_EQ(Train(session, m), last == 15 ? 5 : last == 10 && Files().size() < 8 ? 10 : 0) << last;
    ASSERT_OK(session.Close());
    ASSERT_OK(session.Close());
    EXPECT_EQ(*LatestCheckpoint(folder_), Path(absl::StrCat("model.ckpt-", last)));
    EXPECT_TRUE(session.ShouldStop());
    EXPECT_EQ(session.Run({m.loss}).status().ToString(),
              "FAILED_PRECONDITION: Run after Close: the training has ended");
    EXPECT_FALSE(session.session().Run({m.loss}).ok());
  }
  EXPECT_TRUE(PosixFileSystem().FileExists(Path("graph.pbtxt")).ok());
}

TEST_F(MonitoredSessionTest, GoesOnInAFolderOfAnySpelling) {
  int64_t last = 0;
  for (const std::string& folder : {folder_ + "/", folder_ + "//", folder_ + "/./", folder_}) {
    ScalarModel m;
    ASSERT_OK_AND_ASSIGN(auto session, MonitoredTrainingSession::Start(
                                           m.graph, {.checkpoint_dir = folder, .hooks = {StopAtStep(last += 5)}}));
    EXPECT_EQ(Train(session, m), 5) << folder;
    ASSERT_OK(session.Close());
    EXPECT_EQ(LatestCheckpoint(folder).value_or("none"), Path(absl::StrCat("model.ckpt-", last)));
  }
  EXPECT_THAT(ReadCheckpointState(folder_)->saved, testing::SizeIs(5)) << "that of step 0, and four";
}

TEST_F(MonitoredSessionTest, NeedsNoFolderAndNoGlobalStep) {
  Graph graph;
  const Scope s = graph.root();
  const Var v = MakeVariable(s, "v", {}, {.initializer = initializers::Constant(2)});
  ASSERT_OK_AND_ASSIGN(auto session, MonitoredTrainingSession::Start(graph));
  EXPECT_EQ((*session.Run({v}))[0].scalar<float>(), 2);
  EXPECT_TRUE(absl::IsFailedPrecondition(MonitoredTrainingSession::Start(graph, {.checkpoint_dir = folder_}).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(MonitoredTrainingSession::Start(graph, {.hooks = {StopAtStep(1)}}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(MonitoredTrainingSession::Start(graph, {.hooks = {nullptr}}).status()));
}

TEST_F(MonitoredSessionTest, ANodeThatRunsIsNotTakenForItsValue) {
  ScalarModel m;
  ASSERT_OK_AND_ASSIGN(auto session, MonitoredTrainingSession::Start(m.graph));
  ASSERT_OK_AND_ASSIGN(const auto value, session.Run({"loss"}));
  EXPECT_EQ(value[0].scalar<float>(), 9);
  ASSERT_OK_AND_ASSIGN(const auto ran, session.Run({Fetch::Target(m.loss)}));
  EXPECT_FALSE(ran[0].has_value());
  ASSERT_OK_AND_ASSIGN(const auto both, session.Run({Fetch::Target(m.loss), "loss"}));
  EXPECT_FALSE(both[0].has_value());
  EXPECT_EQ(both[1].scalar<float>(), 9);
}

TEST_F(MonitoredSessionTest, HooksOfAllKinds) {
  ScalarModel m;
  summary::Scalar(m.s, "loss_summary", m.loss);
  const auto final_ops = FinalOps({m.w});
  int fed = 0;
  const auto feed = FeedFunction([&]() -> absl::StatusOr<std::vector<Feed>> {
    ++fed;
    return std::vector<Feed>{{m.x, Tensor::Scalar<float>(5)}};
  });
  ASSERT_OK_AND_ASSIGN(auto session, MonitoredTrainingSession::Start(
                                         m.graph, {.checkpoint_dir = folder_,
                                                   .hooks = {final_ops, feed, StopAfterSteps(6), GlobalStepWaiter(0),
                                                             LogTensors({{"loss", m.loss}}, {.every_n_steps = 3}),
                                                             Profiler(Path("traces"), {.every_n_steps = 4})},
                                                   .save_summaries_steps = 2,
                                                   .log_step_count_steps = 1}));
  EXPECT_THAT(session.Run({m.loss}, {{m.x, Tensor::Scalar<float>(1)}}).status().ToString(), HasSubstr("fed twice"));
  fed = 0;
  EXPECT_EQ(Train(session, m), 6);
  EXPECT_THAT(final_ops->values(), testing::IsEmpty());
  ASSERT_OK(session.Close());
  EXPECT_EQ(fed, 6);
  EXPECT_NEAR(final_ops->values()[0].scalar<float>(), 5 - 5.0 / 64, 1e-5);
  EXPECT_THAT(Files(Path("traces")), ElementsAre("timeline-1.json", "timeline-5.json"));
  std::vector<int64_t> summaries, rates;
  std::vector<tensorflow::SessionLog::SessionStatus> log;
  for (const tensorflow::Event& event : Events()) {
    if (event.has_session_log()) log.push_back(event.session_log().status());
    if (!event.has_summary()) continue;
    (event.summary().value(0).tag() == "loss_summary" ? summaries : rates).push_back(event.step());
  }
  EXPECT_THAT(summaries, ElementsAre(1, 3, 5));
  EXPECT_THAT(rates, ElementsAre(2, 3, 4, 5, 6));
  using Log = tensorflow::SessionLog;
  EXPECT_THAT(log, ElementsAre(Log::START, Log::CHECKPOINT, Log::CHECKPOINT, Log::STOP));
}

TEST_F(MonitoredSessionTest, SummariesNeedNoGlobalStep) {
  Graph graph;
  const Output x = Const(graph.root().WithOpName("x"), 1.0f);
  summary::Scalar(graph.root(), "x_summary", x);
  ASSERT_OK_AND_ASSIGN(auto session,
                       MonitoredTrainingSession::Start(graph, {.save_summaries_steps = 2, .summary_dir = folder_}));
  for (int i = 0; i < 6; ++i) ASSERT_OK(session.Run({x}).status());
  ASSERT_OK(session.Close());
  std::vector<int64_t> summaries;
  for (const tensorflow::Event& event : Events()) {
    if (event.has_summary()) summaries.push_back(event.step());
  }
  EXPECT_THAT(summaries, ElementsAre(1, 3, 5));
}

TEST_F(MonitoredSessionTest, ALossThatIsNoNumberEndsTheTraining) {
  for (const bool fail : {true, false}) {
    ScalarModel m;
    ASSERT_OK_AND_ASSIGN(auto session,
                         MonitoredTrainingSession::Start(m.graph, {.checkpoint_dir = folder_,
                                                                   .hooks = {NanGuard(m.loss, {.fail = fail})},
                                                                   .save_checkpoint_steps = 1}));
    ASSERT_OK(session.Run({m.train_op}).status());
    const absl::Status status = session.Run({m.train_op}, {{m.x, Tensor::Scalar<float>(NAN)}}).status();
    EXPECT_TRUE(session.ShouldStop());
    EXPECT_EQ(status.ok(), !fail);
    if (!fail) continue;
    EXPECT_THAT(status.ToString(),
                HasSubstr("FAILED_PRECONDITION: NaN loss: loss:0 is float [] [nan] at global step 2"));
    EXPECT_EQ(session.Run({m.train_op}).status(), status) << "for good";
    ASSERT_OK(session.Close());
    EXPECT_EQ(*LatestCheckpoint(folder_), Path("model.ckpt-1")) << "what is no number is not saved";
  }
}

TEST_F(MonitoredSessionTest, ALossOfAnyTypeMayBeNoNumber) {
  for (const DType dtype : {kHalf, kBfloat16, kFloat, kDouble}) {
    ScalarModel m;
    const Output loss = Cast(m.s, m.loss, dtype);
    ASSERT_OK_AND_ASSIGN(auto session, MonitoredTrainingSession::Start(m.graph, {.hooks = {NanGuard(loss)}}));
    ASSERT_OK(session.Run({m.train_op}).status());
    EXPECT_TRUE(absl::IsFailedPrecondition(session.Run({m.train_op}, {{m.x, Tensor::Scalar<float>(NAN)}}).status()))
        << ToString(dtype);
  }
  ScalarModel m;
  ASSERT_OK_AND_ASSIGN(auto session, MonitoredTrainingSession::Start(m.graph, {.hooks = {NanGuard(m.global_step)}}));
  ASSERT_OK(session.Run({m.train_op}).status()) << "every integer is a number";
}

TEST_F(MonitoredSessionTest, SaysThatNothingCountsTheSteps) {
  ScalarModel m;
  const Output uncounted = GradientDescent({.learning_rate = 0.25})->Minimize(m.s, m.loss);
  ASSERT_OK_AND_ASSIGN(
      auto session, MonitoredTrainingSession::Start(m.graph, {.hooks = {StopAtStep(500)}, .log_step_count_steps = 0}));
  static std::string* const log = new std::string;
  SetLogSink([](LogLevel level, const std::string& line) {
    if (level == LogLevel::kWarning) absl::StrAppend(log, line);
  });
  const absl::Cleanup to_stderr = [] { SetLogSink(nullptr); };
  for (int i = 0; i < 99; ++i) ASSERT_OK(session.Run({uncounted}).status());
  ASSERT_OK(session.Run({m.train_op}).status());
  for (int i = 0; i < 99; ++i) ASSERT_OK(session.Run({uncounted}).status());
  EXPECT_EQ(*log, "") << "others count, too";
  for (int i = 0; i < 300; ++i) ASSERT_OK(session.Run({uncounted}).status());
  EXPECT_THAT(*log, HasSubstr("StopAtStep waits for global step 500, but after 100 steps of this worker it is still 1: "
                              "does the optimizer increment it, as in Minimize(s, loss, {.global_step = step})?"));
  EXPECT_THAT(*log, HasSubstr("after 200 steps"));
  EXPECT_EQ(std::count(log->begin(), log->end(), '\n'), 2) << *log;
}

TEST_F(MonitoredSessionTest, AFullDiskBetweenDoesNotEndIt) {
  ScalarModel m;
  ASSERT_OK_AND_ASSIGN(auto session, MonitoredTrainingSession::Start(m.graph, {.checkpoint_dir = folder_,
                                                                               .save_checkpoint_steps = 1,
                                                                               .save_summaries_steps = 0,
                                                                               .log_step_count_steps = 0}));
  ASSERT_OK(session.Run({m.train_op}).status());
  {
    FileSizeLimit limit(4);
    ASSERT_OK(session.Run({m.train_op}).status());
    EXPECT_EQ(*LatestCheckpoint(folder_), Path("model.ckpt-1"));
  }
  ASSERT_OK(session.Run({m.train_op}).status());
  EXPECT_EQ(*LatestCheckpoint(folder_), Path("model.ckpt-3"));
  ASSERT_OK(session.Run({m.loss}).status());
  ASSERT_OK(session.Run({m.train_op}).status());
  FileSizeLimit limit(4);
  ASSERT_OK(session.Run({m.train_op}).status());
  EXPECT_FALSE(session.Close().ok()) << "the last one was not saved";
}

TEST_F(MonitoredSessionTest, TheEndOfTheDataIsAnEnd) {
  ScalarModel m;
  const Var next = MakeVariable(m.s, "next", {}, {.initializer = initializers::Zeros(), .dtype = kInt64});
  const Output queue = FIFOQueue(m.s, {kInt64}, {Shape()}, {.capacity = 1});
  const Output take = QueueDequeue(m.s, queue, {kInt64})[0];
  Scaffold scaffold;
  scaffold.queue_runners = {MakeQueueRunner(m.s, queue, {QueueEnqueue(m.s, queue, {CountUpTo(m.s, next.ref, 3)})})};
  ASSERT_OK_AND_ASSIGN(auto session,
                       MonitoredTrainingSession::Start(m.graph, {.checkpoint_dir = folder_, .scaffold = scaffold}));
  absl::Status status;
  int steps = 0;
  for (; !session.ShouldStop() && (status = session.Run({take}).status()).ok(); ++steps) {
    ASSERT_OK(session.Run({m.train_op}).status());
  }
  EXPECT_EQ(steps, 3);
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_TRUE(session.ShouldStop());
  ASSERT_OK(session.Close());
  EXPECT_EQ(*LatestCheckpoint(folder_), Path("model.ckpt-3"));
}

// The loop of a program that returns every error. The end of the data is not a failure.
absl::Status TrainWithoutClose(ScalarModel& m, const std::string& folder, Output step) {
  ASSIGN_OR_RETURN(auto session, MonitoredTrainingSession::Start(m.graph, {.checkpoint_dir = folder}));
  while (!session.ShouldStop()) {
    RETURN_IF_ERROR(session.Run({m.train_op}).status());
    RETURN_IF_ERROR(session.Run({step}).status());
  }
  return session.Close();
}

TEST_F(MonitoredSessionTest, TheEndOfTheDataIsAnEndWithoutClose) {
  ScalarModel m;
  const Var next = MakeVariable(m.s, "next", {}, {.initializer = initializers::Zeros(), .dtype = kInt64});
  const absl::Status status = TrainWithoutClose(m, folder_, CountUpTo(m.s, next.ref, 3));
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_EQ(*LatestCheckpoint(folder_), Path("model.ckpt-4"));
}

TEST_F(MonitoredSessionTest, AnErrorWithoutCloseSavesNothing) {
  ScalarModel m;
  const Output fails = CheckNumerics(m.s, Div(m.s, Const(m.s, 0.0f), Const(m.s, 0.0f)), "fails");
  EXPECT_TRUE(absl::IsInvalidArgument(TrainWithoutClose(m, folder_, fails)));
  EXPECT_EQ(*LatestCheckpoint(folder_), Path("model.ckpt-0"));
}

TEST_F(MonitoredSessionTest, ACheckpointOfAnotherModelIsRefused) {
  {
    Graph other;
    MakeVariable(other.root(), "w", {7});
    GetOrCreateGlobalStep(other.root());
    ASSERT_OK_AND_ASSIGN(auto session, MonitoredTrainingSession::Start(other, {.checkpoint_dir = folder_}));
    ASSERT_OK(session.Close());
  }
  ScalarModel m;
  const absl::Status status = MonitoredTrainingSession::Start(m.graph, {.checkpoint_dir = folder_}).status();
  EXPECT_THAT(status.ToString(), HasSubstr("of another type or shape: w (float [7] in the checkpoint, float [] in"));
}

// Damage that only reading the data shows.
TEST_F(MonitoredSessionTest, ADamagedCheckpointIsPassedOver) {
  const auto train_to = [&](int64_t last) {
    ScalarModel m;
    ASSERT_OK_AND_ASSIGN(auto session, MonitoredTrainingSession::Start(m.graph, {.checkpoint_dir = folder_,
                                                                                 .hooks = {StopAtStep(last)},
                                                                                 .save_checkpoint_steps = 5}));
    EXPECT_EQ(Train(session, m), 5) << last;
    ASSERT_OK(session.Close());
  };
  const auto damage = [&](const std::string& name) {
    for (const std::string& file : Files()) {
      if (!absl::StartsWith(file, name + ".data-")) continue;
      std::string bytes = *PosixFileSystem().ReadFileToString(Path(file));
      bytes[0] ^= 1;
      ASSERT_OK(PosixFileSystem().WriteStringToFile(Path(file), bytes));
    }
  };
  train_to(5);
  train_to(10);
  damage("model.ckpt-10");
  train_to(10);  // from 5
  damage("model.ckpt-10");
  damage("model.ckpt-5");
  damage("model.ckpt-0");
  ScalarModel m;
  EXPECT_THAT(MonitoredTrainingSession::Start(m.graph, {.checkpoint_dir = folder_}).status().ToString(),
              testing::AllOf(HasSubstr("DATA_LOSS: restoring "), HasSubstr("none of the 3 checkpoints in ")));
}

TEST_F(MonitoredSessionTest, TwoChiefsCannotWriteOneFolder) {
  ScalarModel m, other;
  ASSERT_OK_AND_ASSIGN(auto session, MonitoredTrainingSession::Start(m.graph, {.checkpoint_dir = folder_}));
  EXPECT_THAT(
      MonitoredTrainingSession::Start(other.graph, {.checkpoint_dir = folder_, .max_wait = absl::Milliseconds(100)})
          .status()
          .ToString(),
      testing::AllOf(HasSubstr("FAILED_PRECONDITION: the checkpoints in "),
                     HasSubstr(absl::StrCat("are written by process ", getpid(), " on "))));
  ASSERT_OK(session.Close());
  EXPECT_THAT(Files(), testing::Not(testing::Contains(".chief")));
  ScalarModel next;
  ASSERT_OK(MonitoredTrainingSession::Start(next.graph, {.checkpoint_dir = folder_}).status());
}

// Workers that come late join at once, and all end at the same global step.
TEST_F(MonitoredSessionTest, ChiefAndWorkers) {
  // No task waits for worker 2, which never starts.
  TestCluster cluster({{"ps", 2}, {"worker", 3}}, {{"worker", 2}});
  ScalarModel chief(2, 0), worker(2, 1);
  Notification waits, trained;
  std::atomic<int> steps{0};
  Thread other("worker", [&] {
    waits.Notify();
    auto session = MonitoredTrainingSession::Start(
        worker.graph, {.master = cluster.target({"worker", 1}), .is_chief = false, .hooks = {StopAtStep(40)}});
    ASSERT_TRUE(session.ok()) << session.status();
    // A fast worker would leave no step to the chief, whose first is traced.
    EXPECT_TRUE(trained.WaitForNotificationWithTimeout(absl::Minutes(1)));
    steps += Train(*session, worker);
    ASSERT_OK(session->Close());
  });
  waits.WaitForNotification();
  ASSERT_OK_AND_ASSIGN(
      auto session, MonitoredTrainingSession::Start(chief.graph, {.master = cluster.target({"worker", 0}),
                                                                  .checkpoint_dir = folder_,
                                                                  .hooks = {StopAtStep(40), Profiler(Path("traces"))},
                                                                  .save_checkpoint_steps = 10}));
  ASSERT_OK(session.Run({chief.train_op}).status());
  trained.Notify();
  steps += 1 + Train(session, chief);
  // A trace has the whole step, whichever task ran it.
  const std::vector<std::string> traces = Files(Path("traces"));
  ASSERT_EQ(traces.size(), 1);
  ASSERT_OK_AND_ASSIGN(const std::string trace, PosixFileSystem().ReadFileToString(Path("traces/" + traces[0])));
  for (const char* task : {"/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1", "/job:worker/replica:0/task:0"}) {
    EXPECT_THAT(trace, HasSubstr(task));
    // The flight recorder's entry of the step is there, too.
    EXPECT_THAT(trace, HasSubstr(absl::StrCat("\"", task, " (recorded)\"")));
  }
  EXPECT_THAT(trace, HasSubstr("\"name\":\"compute\""));
  EXPECT_GE(StepOf(session.session(), chief), 40);
  ASSERT_OK(session.Close());
  // One that comes when all is done has nothing to do.
  ScalarModel late(2, 1);
  ASSERT_OK_AND_ASSIGN(auto last, MonitoredTrainingSession::Start(late.graph, {.master = cluster.target({"worker", 1}),
                                                                               .is_chief = false,
                                                                               .hooks = {StopAtStep(40)}}));
  EXPECT_TRUE(last.ShouldStop());
}

TEST_F(MonitoredSessionTest, AWorkerThatJoinsLater) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}});
  ScalarModel chief(1, 0), worker(1, 1);
  ASSERT_OK_AND_ASSIGN(auto one,
                       MonitoredTrainingSession::Start(chief.graph, {.master = cluster.target({"worker", 0})}));
  const Options late{.master = cluster.target({"worker", 1}), .is_chief = false, .hooks = {GlobalStepWaiter(5)}};
  ASSERT_OK_AND_ASSIGN(auto two, MonitoredTrainingSession::Start(worker.graph, late));
  std::atomic<int64_t> joined_at{-1};
  {
    Thread joins("worker", [&] {
      ASSERT_OK(two.Run({worker.train_op}).status());
      joined_at = StepOf(two.session(), worker);
    });
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(joined_at, -1);
      ASSERT_OK(one.Run({chief.train_op}).status());
    }
  }
  EXPECT_EQ(joined_at, 6);
}

// The chief has made the session, and does not train.
TEST_F(MonitoredSessionTest, AWorkerThatJoinsLaterGivesUpWhenTheOthersStandStill) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}});
  ScalarModel chief(1, 0), worker(1, 1);
  ASSERT_OK_AND_ASSIGN(auto one,
                       MonitoredTrainingSession::Start(chief.graph, {.master = cluster.target({"worker", 0})}));
  const Options late{.master = cluster.target({"worker", 1}),
                     .is_chief = false,
                     .hooks = {GlobalStepWaiter(5, absl::Milliseconds(100))}};
  ASSERT_OK_AND_ASSIGN(auto two, MonitoredTrainingSession::Start(worker.graph, late));
  EXPECT_THAT(two.Run({worker.train_op}).status(),
              Fails(absl::StatusCode::kDeadlineExceeded, "global step 5, which other workers reach; it is at 0"));
}

TEST_F(MonitoredSessionTest, AWorkerSaysOnWhomItWaits) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}});
  ScalarModel worker(1, 1);
  const absl::Status status =
      MonitoredTrainingSession::Start(
          worker.graph, {.master = cluster.target({"worker", 1}), .is_chief = false, .max_wait = absl::Seconds(3)})
          .status();
  EXPECT_THAT(status.ToString(), HasSubstr("for the chief to give values to the variables: global_step, w have none"));
  TestCluster absent({{"ps", 2}, {"worker", 1}}, {{"ps", 1}});
  ScalarModel chief(2);
  const absl::Status never = MonitoredTrainingSession::Start(
                                 chief.graph, {.master = absent.target({"worker", 0}), .max_wait = absl::Seconds(1)})
                                 .status();
  EXPECT_THAT(never.ToString(), HasSubstr("DEADLINE_EXCEEDED: no session on grpc://"));
}

}  // namespace
}  // namespace thalweg
