// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/data_flow/group_assembly.h"

#include <set>
#include <vector>

#include "thalweg/base/clock.h"
#include "thalweg/kernel/op_testlib.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

class GroupAssemblyTest : public testing::Test {
 protected:
  GroupAssembly::Outcome Arrive(int64_t worker, int64_t session, bool again) {
    auto outcome = assembly_.Arrive(
        {.worker = worker, .session = session, .again = again, .workers = 3, .lost_after = absl::Seconds(10)}, now_);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.ok() ? *std::move(outcome) : GroupAssembly::Outcome();
  }
  // Workers ask in turn until `lost_after` and a little more have passed, or all have the same group, which it returns.
  GroupAssembly::Outcome AskUntilThere(const std::vector<std::pair<int64_t, int64_t>>& workers, bool again) {
    for (int i = 0; i < 120; ++i, Pass(absl::Milliseconds(100))) {
      std::set<int32_t> keys;
      GroupAssembly::Outcome outcome;
      for (const auto& [worker, session] : workers) keys.insert((outcome = Arrive(worker, session, again)).key);
      if (keys.size() == 1 && outcome.size > 0) return outcome;
    }
    return {};
  }
  void Pass(absl::Duration time) { now_ += absl::ToInt64Nanoseconds(time); }

  GroupAssembly assembly_;
  int64_t now_ = 1;
};

TEST_F(GroupAssemblyTest, AJobBeginsWithAllWorkers) {
  for (int i = 0; i < 100; ++i, Pass(absl::Seconds(1))) {
    EXPECT_THAT(Arrive(0, 10, false).missing,
                ElementsAreArray(i == 0 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{2}));
    EXPECT_EQ(Arrive(1, 11, false).size, 0) << "however long the third takes";
  }
  const auto last = Arrive(2, 12, false);
  EXPECT_EQ(last.size, 3);
  EXPECT_EQ(Arrive(0, 10, false).key, last.key);
  EXPECT_EQ(Arrive(1, 11, false).key, last.key);
  EXPECT_FALSE(Arrive(1, 11, false).ended.has_value());
}

TEST_F(GroupAssemblyTest, GoesOnWithoutAWorkerThatDoesNotComeBack) {
  const auto first = AskUntilThere({{0, 10}, {1, 11}, {2, 12}}, false);
  ASSERT_EQ(first.size, 3);
  EXPECT_EQ(Arrive(2, 22, true).ended, first.key);
  EXPECT_THAT(Arrive(0, 20, true).missing, ElementsAre(1));
  Pass(absl::Seconds(4));
  EXPECT_EQ(Arrive(2, 22, true).size, 0);
  Pass(absl::Seconds(4));
  EXPECT_EQ(Arrive(0, 20, true).size, 0) << "before lost_after";
  const auto second = AskUntilThere({{0, 20}, {2, 22}}, true);
  EXPECT_EQ(second.size, 2);
  EXPECT_NE(second.key, first.key);

  // Nobody waits for it any longer.
  EXPECT_EQ(Arrive(2, 32, true).ended, second.key);
  EXPECT_EQ(Arrive(0, 30, true).size, 2);
}

TEST_F(GroupAssemblyTest, AWorkerThatComesBackTakesPartAgain) {
  ASSERT_EQ(AskUntilThere({{0, 10}, {1, 11}, {2, 12}}, false).size, 3);
  const auto two = AskUntilThere({{0, 20}, {1, 21}}, true);
  ASSERT_EQ(two.size, 2);
  EXPECT_EQ(Arrive(2, 22, false).ended, two.key) << "the step of the others ends";
  EXPECT_EQ(Arrive(0, 30, true).size, 0);
  EXPECT_EQ(Arrive(1, 31, true).size, 3);
}

// It is one process after another on the same task.
TEST_F(GroupAssemblyTest, AWorkerThatComesBackAtOnceTakesThePlaceOfTheFormer) {
  ASSERT_EQ(AskUntilThere({{0, 10}, {1, 11}, {2, 12}}, false).size, 3);
  const auto same = AskUntilThere({{0, 20}, {1, 21}, {2, 22}}, true);
  EXPECT_EQ(same.size, 3);
  EXPECT_EQ(Arrive(1, 99, false).ended, same.key);
}

TEST_F(GroupAssemblyTest, NobodyGoesOnWithoutTheChief) {
  ASSERT_EQ(AskUntilThere({{0, 10}, {1, 11}, {2, 12}}, false).size, 3);
  for (int i = 0; i < 100; ++i, Pass(absl::Seconds(1))) {
    EXPECT_THAT(Arrive(1, 21, true).missing, ElementsAre(0, 2));
  }
  // The chief waits for lost_after from its own arrival.
  EXPECT_THAT(Arrive(0, 20, true).missing, ElementsAre(2));
}

// A chief that was restarted knows no group, but the others say that there was one.
TEST_F(GroupAssemblyTest, ARestartedChiefWaitsForTheOthersOnlyForAWhile) {
  EXPECT_THAT(Arrive(1, 11, true).missing, ElementsAre(0, 2));
  EXPECT_THAT(Arrive(0, 10, false).missing, ElementsAre(2));
  const auto group = AskUntilThere({{0, 10}, {1, 11}}, true);
  EXPECT_EQ(group.size, 2);
}

TEST_F(GroupAssemblyTest, AWorkerThatNoLongerAsksIsNotAMember) {
  Arrive(1, 11, false);
  Arrive(2, 12, false);
  Pass(GroupAssembly::kAsksWithin + absl::Milliseconds(1));
  EXPECT_THAT(Arrive(0, 10, false).missing, ElementsAre(1, 2));
}

TEST_F(GroupAssemblyTest, ArrivalsThatContradictEachOtherAreErrors) {
  const auto error = [&](int64_t worker, int64_t workers) {
    return assembly_.Arrive({.worker = worker, .session = 1, .workers = workers}, now_).status().ToString();
  };
  EXPECT_THAT(error(3, 3), HasSubstr("worker 3 arrives at a job of 3 workers"));
  EXPECT_THAT(error(-1, 3), HasSubstr("worker -1 arrives"));
  EXPECT_THAT(error(0, 0), HasSubstr("a group of 0 workers"));
  EXPECT_THAT(error(0, int64_t{1} << 40), HasSubstr("expected 1 to 65536"));
  Arrive(0, 10, false);
  EXPECT_THAT(error(1, 2), HasSubstr("worker 1 says that the job has 2 workers, worker 0 that it has 3"));
}

}  // namespace
}  // namespace thalweg
