// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/clock.h"

#include "gtest/gtest.h"
#include "thalweg/base/clock_testlib.h"

namespace thalweg {
namespace {

TEST(ClockTest, RealClockMovesForward) {
  Clock& clock = RealClock();
  const int64_t before = clock.MonotonicNanos();
  clock.SleepNanos(2'000'000);
  EXPECT_GE(clock.MonotonicNanos() - before, 2'000'000);
  EXPECT_GE(NowNanos(), before);
  EXPECT_GT(clock.WallMicros(), int64_t{1'600'000'000} * 1'000'000);  // after 2020
}

TEST(ClockTest, FakeClockMovesOnlyWhenTold) {
  FakeClock clock(5'000'000);
  EXPECT_EQ(clock.MonotonicNanos(), 0);
  EXPECT_EQ(clock.WallMicros(), 5'000'000);
  clock.AdvanceNanos(3000);
  clock.SleepNanos(4000);
  EXPECT_EQ(clock.MonotonicNanos(), 7000);
  EXPECT_EQ(clock.WallMicros(), 5'000'007);
}

}  // namespace
}  // namespace thalweg
