// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/timer.h"

#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/clock_testlib.h"
#include "thalweg/base/notification.h"

namespace thalweg {
namespace {

TEST(Timer, RunsAlarmsInOrderOfTime) {
  Timer timer;
  std::vector<int> order;
  Notification last;
  const absl::Time now = absl::Now();
  timer.Set(now + absl::Milliseconds(30), [&] {
    order.push_back(3);
    last.Notify();
  });
  timer.Set(now + absl::Milliseconds(10), [&] { order.push_back(1); });
  timer.Set(now + absl::Milliseconds(20), [&] { order.push_back(2); });
  ASSERT_TRUE(last.WaitForNotificationWithTimeout(absl::Seconds(30)));
  EXPECT_THAT(order, testing::ElementsAre(1, 2, 3));
}

// The machine's time may be set; the clock that counts cannot.
TEST(Timer, CountsOnTheMonotonicClock) {
  FakeClock clock;
  Timer timer(clock);
  Notification far, near;
  timer.Set(absl::Now() + absl::Hours(2), [&] { far.Notify(); });
  clock.AdvanceNanos(absl::ToInt64Nanoseconds(absl::Hours(3)));
  timer.Set(absl::Now(), [&] { near.Notify(); });  // the thread looks at its clock
  ASSERT_TRUE(near.WaitForNotificationWithTimeout(absl::Seconds(30)));
  EXPECT_TRUE(far.HasBeenNotified());
}

TEST(Timer, AnAlarmThatIsUnsetNeverRuns) {
  Timer timer;
  bool ran = false;
  Notification later;
  const Timer::AlarmId id = timer.Set(absl::Now() + absl::Milliseconds(20), [&] { ran = true; });
  EXPECT_TRUE(timer.Unset(id));
  timer.Set(absl::Now() + absl::Milliseconds(40), [&] { later.Notify(); });
  ASSERT_TRUE(later.WaitForNotificationWithTimeout(absl::Seconds(30)));
  EXPECT_FALSE(ran);
}

TEST(Timer, UnsetWaitsForAnAlarmThatRuns) {
  Timer timer;
  Notification started, go_on;
  bool ended = false;
  const Timer::AlarmId id = timer.Set(absl::Now(), [&] {
    started.Notify();
    go_on.WaitForNotification();
    ended = true;
  });
  started.WaitForNotification();
  go_on.Notify();
  EXPECT_FALSE(timer.Unset(id));
  EXPECT_TRUE(ended);
}

TEST(Timer, AnAlarmMayUnsetItself) {
  Timer timer;
  Notification set, ended;
  Timer::AlarmId id{};
  id = timer.Set(absl::Now(), [&] {
    set.WaitForNotification();
    EXPECT_FALSE(timer.Unset(id));
    ended.Notify();
  });
  set.Notify();
  EXPECT_TRUE(ended.WaitForNotificationWithTimeout(absl::Seconds(30)));
}

TEST(Timer, DestructionDropsAlarms) {
  bool ran = false;
  {
    Timer timer;
    timer.Set(absl::Now() + absl::Hours(1), [&] { ran = true; });
  }
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace thalweg
