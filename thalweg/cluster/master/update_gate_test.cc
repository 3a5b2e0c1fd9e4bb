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
  gate.Resume(7);
  gate.Resume(7);
  EXPECT_EQ(started, 1);
  gate.Resume(8);
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

TEST(UpdateGate, TheEndOfTheServerHoldsNobodyBack) {
  UpdateGate gate;
  int started = 0;
  gate.Pause(7, kLong, [](const absl::Status&) {});
  gate.Enter([&] { ++started; });
  gate.Open();
  EXPECT_EQ(started, 1);
  gate.Pause(8, kLong, [](const absl::Status& status) { EXPECT_TRUE(absl::IsCancelled(status)); });
  gate.Enter([&] { ++started; });
  EXPECT_EQ(started, 2);
}

}  // namespace
}  // namespace thalweg
