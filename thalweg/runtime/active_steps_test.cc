// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/active_steps.h"

#include <optional>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "thalweg/base/awaited_log_testlib.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/graph_testlib.h"

namespace thalweg {
namespace {

constexpr absl::Duration kTooLong = absl::Seconds(30);

// Waits until the step is cancelled.
absl::Status WaitForEnd(Cancellation& cancellation) {
  Notification ended;
  const auto id = cancellation.Register([&](const absl::Status&) { ended.Notify(); });
  if (id.has_value()) ended.WaitForNotification();
  return cancellation.status();
}

TEST(ActiveSteps, ADeadlineEndsAStep) {
  Timer timer;
  ActiveSteps steps({.timer = &timer});
  StepScope scope(steps);
  ASSERT_OK(scope.Begin(absl::Milliseconds(20), nullptr));
  EXPECT_THAT(WaitForEnd(scope.cancellation()), Fails(absl::StatusCode::kDeadlineExceeded, "it had 20ms"));
}

TEST(ActiveSteps, AStepWithoutATimeoutHasTheSessions) {
  Timer timer;
  ActiveSteps steps({.timer = &timer, .default_timeout = absl::Milliseconds(30)});
  StepScope scope(steps);
  ASSERT_OK(scope.Begin(absl::InfiniteDuration(), nullptr));
  EXPECT_THAT(WaitForEnd(scope.cancellation()), Fails(absl::StatusCode::kDeadlineExceeded, "it had 30ms"));
}

TEST(ActiveSteps, TheCallerEndsAStep) {
  Timer timer;
  ActiveSteps steps({.timer = &timer});
  Cancellation caller;
  StepScope scope(steps);
  ASSERT_OK(scope.Begin(absl::InfiniteDuration(), &caller));
  EXPECT_FALSE(scope.cancellation().cancelled());
  caller.Cancel(Cancelled("enough"));
  EXPECT_THAT(scope.cancellation().status(), Fails(absl::StatusCode::kCancelled, "enough"));
  StepScope late(steps);
  EXPECT_THAT(late.Begin(absl::InfiniteDuration(), &caller), Fails(absl::StatusCode::kCancelled, "enough"));
}

// A step may end inside of the callback that cancels it.
TEST(ActiveSteps, AStepEndsInItsCallersCallback) {
  Timer timer;
  ActiveSteps steps({.timer = &timer});
  Cancellation caller;
  std::optional<StepScope> scope(std::in_place, steps);
  ASSERT_OK(scope->Begin(absl::InfiniteDuration(), &caller));
  const auto cancellation = scope->shared_cancellation();
  ASSERT_TRUE(cancellation->Register([&](const absl::Status&) { scope.reset(); }).has_value());
  caller.Cancel(Cancelled("enough"));
  EXPECT_FALSE(scope.has_value());
  EXPECT_TRUE(cancellation->cancelled());
}

TEST(ActiveSteps, CloseEndsAllAndWaitsForThem) {
  Timer timer;
  ActiveSteps steps({.closing = "Closing 'it'", .timer = &timer, .log_wait_after = absl::Milliseconds(10)});
  std::optional<StepScope> waits(std::in_place, steps), computes(std::in_place, steps);
  ASSERT_OK(waits->Begin(absl::InfiniteDuration(), nullptr));
  ASSERT_OK(computes->Begin(absl::InfiniteDuration(), nullptr));
  waits->set_describe_waits([] { return "'a queue'"; });
  EXPECT_THAT(steps.CheckOpen(), IsOk());
  const AwaitedLog log({"Closing 'it' has waited for ", " for 2 steps to end: ", "'a queue'", "a computation"});
  Notification closed;
  std::thread closer([&] {
    steps.Close();
    closed.Notify();
  });
  EXPECT_TRUE(log.Wait(kTooLong)) << log.text();
  EXPECT_THAT(waits->cancellation().status(), Fails(absl::StatusCode::kCancelled, "Session::Close()"));
  EXPECT_TRUE(computes->cancellation().cancelled());
  waits.reset();
  EXPECT_FALSE(closed.HasBeenNotified());
  computes.reset();
  closer.join();
  EXPECT_THAT(steps.CheckOpen(), Fails(absl::StatusCode::kFailedPrecondition, "closed"));
  StepScope late(steps);
  EXPECT_THAT(late.Begin(absl::InfiniteDuration(), nullptr),
              Fails(absl::StatusCode::kFailedPrecondition, "Session has been closed."));
}

}  // namespace
}  // namespace thalweg
