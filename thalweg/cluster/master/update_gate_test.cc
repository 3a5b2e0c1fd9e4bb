// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/master/update_gate.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/graph/graph_testlib.h"

namespace thalweg {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

TEST(UpdateGate, APauseWaitsForThoseInsideAndHoldsOthersBack) {
  UpdateGate gate;
  int started = 0;
  gate.Enter([&] { ++started; });
  EXPECT_EQ(started, 1);
  Notification quiet, joined;
  gate.Pause(7, kLong, [&](const absl::Status& status) {
    EXPECT_THAT(status, IsOk());
    quiet.Notify();
  });
  gate.Enter([&] { ++started; });
  EXPECT_EQ(started, 1);
  EXPECT_FALSE(quiet.HasBeenNotified());
  gate.Leave();
  EXPECT_TRUE(quiet.HasBeenNotified());
  gate.Pause(7, kLong, [&](const absl::Status& status) { joined.Notify(); });
  EXPECT_TRUE(joined.HasBeenNotified());
  // Another pause at the same time.
  gate.Pause(8, kLong, [](const absl::Status& status) { EXPECT_THAT(status, IsOk()); });
  EXPECT_THAT(gate.Resume(7), IsOk());
  EXPECT_THAT(gate.Resume(7), IsOk());
  EXPECT_EQ(started, 1);
  EXPECT_THAT(gate.Resume(8), IsOk());
  EXPECT_EQ(started, 2);
  gate.Leave();
}

TEST(UpdateGate, ALeaseEnds) {
  UpdateGate gate;
  gate.Enter([] {});
  Notification over, started;
  gate.Pause(7, absl::Milliseconds(20), [&](const absl::Status& status) {
    EXPECT_THAT(status, Fails(absl::StatusCode::kDeadlineExceeded, "have not ended within 20ms"));
    over.Notify();
  });
  gate.Enter([&] { started.Notify(); });
  EXPECT_TRUE(over.WaitForNotificationWithTimeout(kLong));
  EXPECT_TRUE(started.WaitForNotificationWithTimeout(kLong));
}

TEST(UpdateGate, APauseWaitsForTheRepetitionOfAFailedStep) {
  UpdateGate gate;
  gate.Enter([] {}, /*client=*/5);
  gate.Leave(5, absl::UnavailableError("a task was lost"));
  bool quiet = false, other = false, again = false;
  gate.Pause(7, kLong, [&](const absl::Status& status) {
    EXPECT_THAT(status, IsOk());
    quiet = true;
  });
  EXPECT_FALSE(quiet) << "the step may have made some of its updates";
  gate.Enter([&] { other = true; }, /*client=*/6);
  EXPECT_FALSE(other);
  gate.Enter([&] { again = true; }, /*client=*/5);
  EXPECT_TRUE(again) << "the pause waits for it";
  EXPECT_FALSE(quiet);
  gate.Leave(5);
  EXPECT_TRUE(quiet);
  EXPECT_THAT(gate.Resume(7), IsOk());
  EXPECT_TRUE(other);
}

TEST(UpdateGate, StepsThatAreNotRepeatedDoNotStay) {
  UpdateGate gate;
  gate.Enter([] {}, /*client=*/5);
  gate.Leave(5, absl::InvalidArgumentError("its client does not repeat it"));
  gate.Enter([] {});
  gate.Leave(0, absl::UnavailableError("it has no number"));
  bool quiet = false;
  gate.Pause(7, kLong, [&](const absl::Status& status) { quiet = status.ok(); });
  EXPECT_TRUE(quiet);
}

TEST(UpdateGate, ARestoreDoesNotWaitForRepetitions) {
  UpdateGate gate;
  gate.Enter([] {}, /*client=*/5);
  gate.Leave(5, absl::AbortedError("a task was restarted"));
  bool quiet = false, again = false;
  gate.Pause(
      7, kLong, [&](const absl::Status& status) { quiet = status.ok(); }, /*overwrites=*/true);
  EXPECT_TRUE(quiet);
  gate.Enter([&] { again = true; }, /*client=*/5);
  EXPECT_FALSE(again) << "it begins after the restore";
  EXPECT_THAT(gate.Resume(7), IsOk());
  EXPECT_TRUE(again);
}

TEST(UpdateGate, APauseThatComesAfterItsEndHoldsNobodyBack) {
  UpdateGate gate;
  EXPECT_THAT(gate.Resume(7), IsOk());
  gate.Pause(7, kLong, [](const absl::Status& status) { EXPECT_TRUE(absl::IsCancelled(status)); });
  bool started = false;
  gate.Enter([&] { started = true; });
  EXPECT_TRUE(started);
  EXPECT_THAT(gate.pauses(), testing::IsEmpty());
}

TEST(UpdateGate, APauseThatHasRunOutDoesNotBeginAnew) {
  UpdateGate gate;
  gate.Enter([] {});
  Notification over;
  gate.Pause(7, absl::Milliseconds(1), [&](const absl::Status&) { over.Notify(); });
  ASSERT_TRUE(over.WaitForNotificationWithTimeout(kLong));
  absl::Status renewed;
  gate.Pause(7, kLong, [&](const absl::Status& status) { renewed = status; });
  EXPECT_THAT(renewed, Fails(absl::StatusCode::kAborted, "The pause has run out"));
  bool started = false;
  gate.Enter([&] { started = true; });
  EXPECT_TRUE(started);
  EXPECT_THAT(gate.Resume(7), Fails(absl::StatusCode::kAborted, "The pause has run out"));
  EXPECT_THAT(gate.Resume(7), Fails(absl::StatusCode::kAborted, "The pause has run out")) << "the call came twice";
  EXPECT_THAT(gate.Resume(8), IsOk()) << "it was not paused here";
}

TEST(UpdateGate, TheEndOfTheServerHoldsNobodyBack) {
  UpdateGate gate;
  int started = 0;
  gate.Pause(7, kLong, [](const absl::Status&) {});
  gate.Enter([&] { ++started; });
  gate.Open();
  EXPECT_EQ(started, 1);
  gate.Pause(8, kLong, [](const absl::Status& status) { EXPECT_TRUE(absl::IsUnavailable(status)); });
  gate.Enter([&] { ++started; });
  EXPECT_EQ(started, 2);
}

TEST(UpdateGate, TellsWhenAllTasksHoldTheValues) {
  UpdateGate gate;
  int held = 0;
  gate.AwaitHeld(7, {"a", "b"}, [&] { ++held; });
  gate.AwaitHeld(8, {"a"}, [&] { ++held; });
  gate.Held(7, "a");
  gate.Held(7, "a");  // the notice arrived twice
  gate.Held(7, "c");
  gate.Held(9, "a");
  EXPECT_EQ(held, 0);
  gate.Held(7, "b");
  EXPECT_EQ(held, 1);
  gate.Held(7, "b");
  gate.ForgetHeld(8);
  gate.Held(8, "a");
  EXPECT_EQ(held, 1);
}

}  // namespace
}  // namespace thalweg
