// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/data_flow/roster.h"

#include <map>
#include <optional>

#include "thalweg/kernel/evaluate.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/roster_ops.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RosterTest : public testing::Test {
 protected:
  void Advance(int worker, int64_t slack, Cancellation* cancellation = nullptr) {
    roster_->Advance(worker, slack);
    roster_->AwaitTurn(worker, slack, {.cancellation = cancellation}, [this, worker](const absl::Status& status) {
      log_.push_back(absl::StrCat(worker, status.ok() ? "" : " failed"));
    });
  }
  // Its gradients are for `step`. In the present generation, or in that of an earlier step.
  void AwaitStep(int worker, int64_t step, std::optional<int64_t> generation = {}) {
    roster_->AwaitStep(worker, rounds_[step] + 1, generation.value_or(roster_->generation()), {},
                       [this, worker](const absl::Status& status, int64_t step, int64_t) {
                         const std::string error = absl::IsAborted(status) ? "again" : status.ToString();
                         log_.push_back(absl::StrCat(worker, " ", status.ok() ? absl::StrCat(step) : error));
                       });
  }
  void Release(int64_t step, int64_t wanted = 2, bool again = false) {
    round_ += again ? 1'000'000 : 1;
    rounds_[step] = round_;
    roster_->Release({.step = step, .round = round_, .wanted = wanted, .total = 2, .again = again});
  }
  std::vector<std::string> Log() { return std::exchange(log_, {}); }

  const std::shared_ptr<Roster> roster_ = std::make_shared<Roster>();
  std::vector<std::string> log_;
  int64_t round_ = 0;
  std::map<int64_t, int64_t> rounds_;  // by step: the round that has released it
};

TEST_F(RosterTest, ReportsWhoTakesPart) {
  ASSERT_TRUE(roster_->Join(0).ok());
  ASSERT_TRUE(roster_->Join(1).ok());
  ASSERT_TRUE(roster_->Join(2).ok());
  roster_->Leave(1);
  roster_->Leave(2, /*expelled=*/true);
  const auto report = [&] {
    ResourceReport report;
    roster_->Report(&report);
    return report.members;
  };
  EXPECT_TRUE(report().at(0).present);
  EXPECT_FALSE(report().at(1).present || report().at(1).expelled);
  EXPECT_FALSE(report().at(2).present);
  EXPECT_TRUE(report().at(2).expelled);
  EXPECT_GT(report().at(2).left_nanos, 0);
  EXPECT_THAT(roster_->Describe(), HasSubstr("worker 1 left at step 0; worker 2 expelled at step 0"));
  roster_->Leave(1, /*expelled=*/true);
  EXPECT_FALSE(report().at(1).expelled) << "it had left by itself";
  roster_->Leave(2, /*expelled=*/true);
  EXPECT_TRUE(report().at(2).expelled) << "still";
  ASSERT_TRUE(roster_->Join(2).ok());
  EXPECT_TRUE(report().at(2).present);
  EXPECT_FALSE(report().at(2).expelled);
}

TEST_F(RosterTest, OnlyExpelledWorkersAreTakenBack) {
  ASSERT_TRUE(roster_->Join(0).ok());
  EXPECT_FALSE(roster_->TakeBack(0));
  roster_->Leave(0, /*expelled=*/true);
  EXPECT_TRUE(roster_->TakeBack(0));
  EXPECT_TRUE(roster_->members().at(0).present);
  roster_->Leave(0, /*expelled=*/true);
  roster_->Leave(0);  // it has noticed, and ends
  EXPECT_FALSE(roster_->TakeBack(0));
  EXPECT_FALSE(roster_->members().at(0).present);
  EXPECT_FALSE(roster_->TakeBack(7)) << "nobody knows it";
}

TEST(Quorum, NoMoreThanThereAreWorkers) {
  EXPECT_EQ(Quorum(3, 3, 0), 3);
  EXPECT_EQ(Quorum(3, 3, 1), 2);
  EXPECT_EQ(Quorum(3, 3, 3), 1);
  EXPECT_EQ(Quorum(3, 5, 1), 3) << "one to spare";
  EXPECT_EQ(Quorum(3, 5, 3), 2);
  EXPECT_EQ(Quorum(6, 3, 1), 4) << "each gives two";
  EXPECT_EQ(Quorum(5, 2, 1), 3);
}

TEST_F(RosterTest, WhoIsTooFarAheadWaitsForTheSlowest) {
  ASSERT_TRUE(roster_->Join(0).ok());
  ASSERT_TRUE(roster_->Join(1).ok());
  Advance(0, 1);
  EXPECT_THAT(Log(), ElementsAre("0"));
  Advance(0, 1);
  EXPECT_THAT(Log(), ElementsAre()) << "2 ahead";
  EXPECT_EQ(roster_->Lead(0), 2);
  EXPECT_EQ(roster_->Lead(1), 0);
  Advance(1, 1);
  EXPECT_THAT(Log(), testing::UnorderedElementsAre("0", "1"));
  Advance(0, 1);
  EXPECT_THAT(Log(), ElementsAre());
  roster_->Leave(1);
  EXPECT_THAT(Log(), ElementsAre("0")) << "who left is not waited for";
  EXPECT_EQ(roster_->members()[0].waits, 2);
  EXPECT_EQ(roster_->Describe(), "a roster: worker 0 at step 3; worker 1 left at step 1;");
  EXPECT_FALSE((*roster_->Join(1))->present) << "it had left";
  EXPECT_TRUE((*roster_->Join(1))->present) << "it came twice";
  EXPECT_EQ(*roster_->Join(2), nullptr);
  EXPECT_EQ(roster_->members()[2].clock, 3) << "starts where the slowest is";
}

TEST_F(RosterTest, ANumberIsForOneTask) {
  EXPECT_EQ(*roster_->Join(1, "/job:worker/task:1"), nullptr);
  EXPECT_TRUE((*roster_->Join(1, "/job:worker/task:1"))->present) << "it was started again";
  EXPECT_TRUE((*roster_->Join(1))->present) << "somebody speaks for it";
  EXPECT_EQ(roster_->Join(1, "/job:chief/task:0").status().ToString(),
            "ALREADY_EXISTS: worker 1 of the training is /job:worker/task:1, and /job:chief/task:0 comes with the same "
            "number: does the number of all workers count the chief?");
  roster_->Leave(1);
  EXPECT_FALSE((*roster_->Join(1, "/job:chief/task:0"))->present);
  EXPECT_FALSE(roster_->Join(1, "/job:worker/task:1").ok());
}

TEST_F(RosterTest, AWaitCanBeCancelled) {
  ASSERT_TRUE(roster_->Join(1).ok());
  Cancellation cancellation;
  Advance(0, 0, &cancellation);
  EXPECT_THAT(Log(), ElementsAre());
  cancellation.Cancel(Cancelled("enough"));
  EXPECT_THAT(Log(), ElementsAre("0 failed"));
}

TEST_F(RosterTest, WorkersWaitForTheRelease) {
  Release(5);
  AwaitStep(0, 5);
  AwaitStep(1, 5);
  EXPECT_THAT(Log(), ElementsAre());
  AwaitStep(2, 4);
  EXPECT_THAT(Log(), ElementsAre("2 5")) << "late";
  Release(6);
  EXPECT_THAT(Log(), ElementsAre("0 6", "1 6"));
  AwaitStep(0, 6);
  roster_->CloseSteps();
  EXPECT_THAT(Log(), ElementsAre("0 OUT_OF_RANGE: the chief has ended the training at step 6"));
}

TEST_F(RosterTest, AStepWhoseGradientWasNotTakenIsRunAgain) {
  Release(6);
  AwaitStep(0, 6);
  AwaitStep(1, 6);
  roster_->Wake();
  EXPECT_THAT(Log(), ElementsAre("0 again", "1 again"));
  AwaitStep(0, 6);
  AwaitStep(1, 6);
  EXPECT_THAT(Log(), ElementsAre()) << "their gradients still wait";
  Release(7);
  EXPECT_THAT(Log(), ElementsAre("0 7", "1 7"));
  const int64_t before = roster_->generation();
  AwaitStep(0, 7);
  roster_->Wake();
  Release(8);
  EXPECT_THAT(Log(), ElementsAre("0 again"));
  AwaitStep(0, 7, before);
  EXPECT_THAT(Log(), ElementsAre("0 8")) << "the round has taken its gradients";
}

TEST_F(RosterTest, AStepThatValuesWereRestoredInIsRunAgain) {
  Release(6);
  const int64_t before = roster_->generation();
  AwaitStep(0, 6);
  Release(2, 2, /*again=*/true);
  EXPECT_THAT(Log(), ElementsAre("0 again"));
  AwaitStep(1, 2, before);
  EXPECT_THAT(Log(), ElementsAre("1 again")) << "its gradients may have come before that";
  // Both begin new sessions, in which the step is 2.
  AwaitStep(0, 2);
  Release(3);
  EXPECT_THAT(Log(), ElementsAre("0 3")) << "it waits for the step after that of its new gradients";
  AwaitStep(0, 2);
  EXPECT_THAT(Log(), ElementsAre("0 3")) << "the answer was lost";
  AwaitStep(0, 6);
  EXPECT_THAT(Log(), ElementsAre()) << "of values that are gone";
}

TEST_F(RosterTest, ARoundIsReleasedOnce) {
  Release(5);
  Release(6);
  roster_->Release({.step = 5, .round = 1});
  AwaitStep(0, 5);
  EXPECT_THAT(Log(), ElementsAre("0 6")) << "that of round 1 came late";
}

TEST_F(RosterTest, AStepThatIsRunAgainDoesNotWaitForTheRoundAfterItsOwn) {
  Release(5);
  AwaitStep(0, 5);
  Release(6);
  EXPECT_THAT(Log(), ElementsAre("0 6"));
  // The worker has not learned that. It begins a session, in which the step is 6, and runs its step again. The
  // accumulators do not take its gradients a second time.
  AwaitStep(0, 5);
  EXPECT_THAT(Log(), ElementsAre("0 6"));
  AwaitStep(0, 6);
  EXPECT_THAT(Log(), ElementsAre());
}

// The chief empties the accumulators, the gradients come, and the roster begins anew.
TEST_F(RosterTest, GradientsOfAnEarlierGenerationMayBeTaken) {
  Release(6);
  const int64_t before = roster_->generation();
  Release(5, 2, /*again=*/true);
  AwaitStep(0, 5, before);
  EXPECT_THAT(Log(), ElementsAre("0 again"));
  Release(6);  // with its gradients
  AwaitStep(0, 5);
  EXPECT_THAT(Log(), ElementsAre("0 6")) << "nobody would release the next step";
}

TEST_F(RosterTest, MoreGradientsThanWorkers) {
  Release(0, 4);
  AwaitStep(0, 0);
  AwaitStep(0, 0);
  AwaitStep(1, 0);
  EXPECT_THAT(Log(), ElementsAre("0 0", "0 0")) << "two workers, and two more";
  roster_->Leave(1);
  Release(1, 4);
  EXPECT_THAT(Log(), ElementsAre("1 1"));
  AwaitStep(0, 1);
  AwaitStep(0, 1);
  EXPECT_THAT(Log(), ElementsAre("0 1")) << "two of one worker";
}

TEST_F(RosterTest, AwaitEmpty) {
  ASSERT_TRUE(roster_->Join(0).ok());
  ASSERT_TRUE(roster_->Join(1).ok());
  bool empty = false;
  roster_->AwaitEmpty({}, [&](const absl::Status& status) { empty = status.ok(); });
  roster_->Leave(0);
  EXPECT_FALSE(empty);
  roster_->Leave(1);
  EXPECT_TRUE(empty);
  roster_->Clear();
  EXPECT_TRUE(roster_->members().empty());
}

TEST(RosterOps, TakePartAndLeave) {
  Graph graph;
  const Scope s = graph.root();
  const Output roster = RosterOf(s, "roster");
  const Output worker = Const(s, int64_t{7});
  const RosterJoinResult join = RosterJoin(s, roster, worker);
  const Output leave = RosterLeave(s, roster, worker);
  const RosterMembersResult members = RosterMembers(s, roster);
  Device device(*DeviceName::Parse("/job:localhost/replica:0/task:0/device:CPU:0"), &TestDevice().intra_op_pool());
  const auto run = [&](std::vector<Output> outputs) {
    auto values = Evaluate(graph, {}, outputs, device);
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? *values : std::vector<Tensor>(outputs.size());
  };
  EXPECT_FALSE(run({join.was_present})[0].scalar<bool>());
  EXPECT_TRUE(run({join.was_present})[0].scalar<bool>());
  run({leave});
  const std::vector<Tensor> m = run({members.worker, members.present, members.clock, members.waits});
  EXPECT_THAT(m[0].flat<int64_t>(), ElementsAre(7));
  EXPECT_THAT(m[1].flat<bool>(), ElementsAre(false));
  EXPECT_THAT(m[2].flat<int64_t>(), ElementsAre(0));
  EXPECT_THAT(m[3].flat<int64_t>(), ElementsAre(0));
  EXPECT_TRUE(run({join.had_left})[0].scalar<bool>());
  EXPECT_FALSE(run({RosterTakeBack(s, roster, worker)})[0].scalar<bool>());
  run({RosterExpel(s, roster, worker)});
  EXPECT_THAT(run({members.present})[0].flat<bool>(), ElementsAre(false));
  EXPECT_TRUE(run({RosterTakeBack(s, roster, worker)})[0].scalar<bool>());
}

}  // namespace
}  // namespace thalweg
