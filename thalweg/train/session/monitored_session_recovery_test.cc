// SPDX-License-Identifier: Apache-2.0
// Sessions that go on after tasks are lost, steps fail and programs are interrupted.
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
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/runtime/session_testlib.h"
#include "thalweg/train/session/file_hooks.h"
#include "thalweg/train/session/monitored_session_testlib.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

class MonitoredSessionRecovery : public MonitoredSessionTest {};

// Fails once, as a save whose parameter server was lost.
class LostAfterRun : public Hook {
 public:
  absl::Status AfterRun(StepContext& context, absl::Span<const Tensor>) override {
    return std::exchange(lost_, false) ? absl::UnavailableError("a task was lost in a hook") : absl::OkStatus();
  }

 private:
  bool lost_ = true;
};

TEST_F(MonitoredSessionRecovery, AStepThatHasRunIsNotRepeatedForAHook) {
  TestCluster cluster({{"ps", 1}, {"worker", 1}});
  ScalarModel m(1);
  ASSERT_OK_AND_ASSIGN(auto session,
                       MonitoredTrainingSession::Start(m.graph, {.master = cluster.target({"worker", 0}),
                                                                 .checkpoint_dir = folder_,
                                                                 .hooks = {std::make_shared<LostAfterRun>()}}));
  ASSERT_OK_AND_ASSIGN(const auto out, session.Run({m.loss, m.train_op}));
  EXPECT_EQ(out[0].scalar<float>(), 9);
  EXPECT_EQ(StepOf(session.session(), m), 1);
  ASSERT_OK(session.Run({m.train_op}).status());
  EXPECT_EQ(StepOf(session.session(), m), 2);
  ASSERT_OK(session.Close());
}

// The step fails after parameter servers have applied their updates.
TEST_F(MonitoredSessionRecovery, AStepWhoseEndIsNotKnownIsAppliedOnce) {
  TestCluster cluster({{"ps", 2}, {"worker", 1}});
  ScalarModel m(2);
  const Scope here = m.s.WithDevice("/job:worker/task:0");
  const Output gated = here.WithControlDependencies({m.train_op}).Add("TestGate", {m.x});
  ASSERT_OK_AND_ASSIGN(auto session, MonitoredTrainingSession::Start(m.graph, {.master = cluster.target({"worker", 0}),
                                                                               .checkpoint_dir = folder_}));
  ASSERT_OK(session.Run({m.train_op}).status());
  ASSERT_OK_AND_ASSIGN(const auto before, session.Run({m.w.read}));
  Gate lost, again;
  the_gate = &lost;
  absl::Status status = absl::InternalError("never ended");
  {
    Thread step("step", [&] { status = session.Run({gated}).status(); });
    lost.entered.WaitForNotification();
    the_gate = &again;
    lost.done(absl::UnavailableError("the answer was lost"));
    again.entered.WaitForNotification();
    again.done(absl::OkStatus());
  }
  ASSERT_OK(status);
  EXPECT_EQ(StepOf(session.session(), m), 2);
  ASSERT_OK_AND_ASSIGN(const auto after, session.Run({m.w.read}));
  // w moves half of the way to 3.
  EXPECT_FLOAT_EQ(after[0].scalar<float>(), before[0].scalar<float>() + (3 - before[0].scalar<float>()) / 2);
  ASSERT_OK(session.Close());
}

// Interrupts the training after its first step.
class InterruptingHook : public Hook {
 public:
  void Attach(const std::shared_ptr<Interruption>& interruption) override { interruption_ = interruption; }
  absl::Status AfterRun(StepContext&, absl::Span<const Tensor>) override {
    interruption_->Request("by a test");
    return absl::OkStatus();
  }

 private:
  std::shared_ptr<Interruption> interruption_;
};

TEST_F(MonitoredSessionRecovery, AWorkerThatWasInterruptedIsNotDone) {
  TestCluster cluster({{"ps", 1}, {"worker", 1}}, {}, TasksIn::kThisProcess, {.gone_after = absl::Milliseconds(1)});
  Notification left;
  Thread join("join", [&] {
    cluster.server({"ps", 0}).Join().IgnoreError();
    left.Notify();
  });
  const auto train = [&](HookList hooks) {
    ScalarModel m(1);
    ASSERT_OK_AND_ASSIGN(
        auto session,
        MonitoredTrainingSession::Start(
            m.graph, {.master = cluster.target({"worker", 0}), .checkpoint_dir = folder_, .hooks = std::move(hooks)}));
    Train(session, m);
    ASSERT_OK(session.Close());
  };
  train({std::make_shared<InterruptingHook>()});
  EXPECT_EQ(*LatestCheckpoint(folder_), Path("model.ckpt-1")) << "the end is as any other";
  cluster.Stop({"worker", 0});
  cluster.Start({"worker", 0});
  EXPECT_FALSE(left.HasBeenNotified());
  train({StopAtStep(3)});
  EXPECT_TRUE(left.WaitForNotificationWithTimeout(absl::Seconds(60)));
}

TEST_F(MonitoredSessionRecovery, ParameterServersLeaveWhenWorkersAreDone) {
  TestCluster cluster({{"ps", 1}, {"worker", 1}});
  ScalarModel m(1);
  absl::Status joined = absl::UnknownError("waits");
  {
    Thread waits("ps", [&] { joined = cluster.server({"ps", 0}).Join(); });
    ASSERT_OK_AND_ASSIGN(
        auto session,
        MonitoredTrainingSession::Start(m.graph, {.master = cluster.target({"worker", 0}), .hooks = {StopAtStep(3)}}));
    Train(session, m);
    ASSERT_OK(session.Close());
  }
  ASSERT_OK(joined);
}

// A parameter server is killed and comes back without its variables.
TEST_F(MonitoredSessionRecovery, RecoversFromTheLastCheckpoint) {
  TestCluster cluster({{"ps", 2}, {"worker", 2}});
  ScalarModel chief(2, 0), worker(2, 1);
  ASSERT_OK_AND_ASSIGN(auto one, MonitoredTrainingSession::Start(chief.graph, {.master = cluster.target({"worker", 0}),
                                                                               .checkpoint_dir = folder_,
                                                                               .hooks = {StopAtStep(12)},
                                                                               .save_checkpoint_steps = 4}));
  ASSERT_OK_AND_ASSIGN(auto two, MonitoredTrainingSession::Start(worker.graph, {.master = cluster.target({"worker", 1}),
                                                                                .is_chief = false,
                                                                                .hooks = {StopAtStep(12)}}));
  for (int i = 0; i < 3; ++i) ASSERT_OK(one.Run({chief.train_op}).status());
  for (int i = 0; i < 3; ++i) ASSERT_OK(two.Run({worker.train_op}).status());
  ASSERT_OK(one.Run({chief.train_op}).status());
  EXPECT_EQ(*LatestCheckpoint(folder_), Path("model.ckpt-7"));
  ASSERT_OK(one.Run({chief.train_op}).status());
  cluster.Stop({"ps", 1});
  Thread restart("restart", [&] { cluster.Start({"ps", 1}); });
  // Step 8 is lost: it comes again.
  ASSERT_OK_AND_ASSIGN(const auto out, one.Run({chief.train_op, chief.w}));
  EXPECT_EQ(StepOf(one.session(), chief), 8);
  ASSERT_OK(two.Run({worker.train_op}).status());
  EXPECT_EQ(StepOf(one.session(), chief), 9);
  Train(one, chief);
  EXPECT_EQ(StepOf(one.session(), chief), 12);
  ASSERT_OK(one.Close());
}

// Again and again, in the middle of saves: there always is a whole one.
TEST_F(MonitoredSessionRecovery, ATaskThatDiesWhileItSaves) {
  TestCluster cluster({{"ps", 2}, {"worker", 1}});
  ScalarModel m(2);
  std::atomic<int> steps{0};
  Thread killer("killer", [&] {
    for (int i = 1; i <= 4; ++i) {
      while (steps < 5 * i) std::this_thread::yield();  // at the end it is more
      cluster.Stop({"ps", i % 2});
      EXPECT_TRUE(LatestCheckpoint(folder_).ok());
      cluster.Start({"ps", i % 2});
    }
  });
  const absl::Cleanup release = [&] { steps = 1000; };  // before the killer is waited for
  ASSERT_OK_AND_ASSIGN(auto session, MonitoredTrainingSession::Start(m.graph, {.master = cluster.target({"worker", 0}),
                                                                               .checkpoint_dir = folder_,
                                                                               .hooks = {StopAtStep(30)},
                                                                               .save_checkpoint_steps = 1}));
  absl::Status status;
  for (; status.ok() && !session.ShouldStop(); ++steps) status = session.Run({m.train_op}).status();
  steps = 1000;
  ASSERT_OK(status);
  EXPECT_EQ(StepOf(session.session(), m), 30);
  ASSERT_OK(session.Close());
  EXPECT_EQ(*LatestCheckpoint(folder_), Path("model.ckpt-30"));
  for (const std::string& name : Files()) EXPECT_FALSE(absl::StrContains(name, "temp")) << name;
}

TEST_F(MonitoredSessionRecovery, ATaskThatIsLostDuringTheStartLeavesVariablesAsTheyAre) {
  // Another worker makes a step before the chief notices that a task was lost.
  class LosesATask : public Hook {
   public:
    explicit LosesATask(const ScalarModel& m) : m_(m) {}
    absl::Status AfterCreateSession(Session& session) override {
      if (std::exchange(lost_, true)) return absl::OkStatus();
      RETURN_IF_ERROR(session.Run({m_.train_op}).status());
      return absl::UnavailableError("a task was lost");
    }

   private:
    const ScalarModel& m_;
    bool lost_ = false;
  };
  TestCluster cluster({{"ps", 1}, {"worker", 1}});
  ScalarModel m(1);
  ASSERT_OK_AND_ASSIGN(auto session,
                       MonitoredTrainingSession::Start(m.graph, {.master = cluster.target({"worker", 0}),
                                                                 .checkpoint_dir = folder_,
                                                                 .hooks = {std::make_shared<LosesATask>(m)}}));
  EXPECT_EQ(StepOf(session.session(), m), 1) << "not initialized a second time";
}

TEST_F(MonitoredSessionRecovery, ARestoreThatFailedHalfwayIsRepeated) {
  TestCluster cluster({{"ps", 2}, {"worker", 1}});
  ScalarModel m(2);
  ASSERT_OK_AND_ASSIGN(auto session, MonitoredTrainingSession::Start(m.graph, {.master = cluster.target({"worker", 0}),
                                                                               .checkpoint_dir = folder_,
                                                                               .save_checkpoint_steps = 1000}));
  const absl::Cleanup switch_off = [] { SetFailPointHandler(nullptr); };
  for (int round = 0; round < 6; ++round) {
    for (int i = 0; i < 3; ++i) ASSERT_OK(session.Run({m.train_op}).status());
    // Either parameter server may be the one whose variables are not restored at the first attempt.
    auto passed = std::make_shared<std::atomic<int>>(0);
    SetFailPointHandler([passed, fails = round % 2](absl::string_view point, absl::string_view) {
      if (point != "restore" || passed->fetch_add(1) != fails) return absl::OkStatus();
      return absl::UnavailableError("injected");
    });
    cluster.Stop({"ps", 1});
    cluster.Start({"ps", 1});
    ASSERT_OK(session.Run({m.train_op}).status());
    EXPECT_GE(*passed, 3) << "two attempts";
    EXPECT_EQ(StepOf(session.session(), m), 1) << "all variables are those of the checkpoint of step 0";
  }
}

TEST_F(MonitoredSessionRecovery, ALostWorkerLeavesVariablesAsTheyAre) {
  TestCluster cluster({{"ps", 1}, {"worker", 1}});
  ScalarModel m(1);
  ASSERT_OK_AND_ASSIGN(auto session, MonitoredTrainingSession::Start(m.graph, {.master = cluster.target({"worker", 0}),
                                                                               .checkpoint_dir = folder_}));
  for (int i = 0; i < 3; ++i) ASSERT_OK(session.Run({m.train_op}).status());
  cluster.Stop({"worker", 0});
  cluster.Start({"worker", 0});
  ASSERT_OK(session.Run({m.train_op}).status());
  EXPECT_EQ(StepOf(session.session(), m), 4) << "not from the checkpoint of step 0";
}

TEST_F(MonitoredSessionRecovery, SaysWhyItCannotRecover) {
  TestCluster cluster({{"ps", 1}, {"worker", 1}});
  {
    ScalarModel m(1);
    ASSERT_OK_AND_ASSIGN(auto session,
                         MonitoredTrainingSession::Start(m.graph, {.master = cluster.target({"worker", 0})}));
    ASSERT_OK(session.Run({m.train_op}).status());
    cluster.Stop({"ps", 0});
    cluster.Start({"ps", 0});
    const absl::Status status = session.Run({m.train_op}).status();
    EXPECT_THAT(status.ToString(), HasSubstr("FAILED_PRECONDITION: variables were lost with the task that held them: "
                                             "global_step, w; they cannot be restored"));
    EXPECT_TRUE(session.ShouldStop());
    EXPECT_EQ(session.Run({m.train_op}).status(), status);
    ASSERT_OK(session.Close());
  }
  ScalarModel m(1);
  ASSERT_OK_AND_ASSIGN(auto session, MonitoredTrainingSession::Start(m.graph, {.master = cluster.target({"worker", 0}),
                                                                               .checkpoint_dir = folder_,
                                                                               .max_wait = absl::Seconds(3)}));
  cluster.Stop({"ps", 0});
  const absl::Status status = session.Run({m.train_op}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("/job:ps"));
}

}  // namespace
}  // namespace thalweg
