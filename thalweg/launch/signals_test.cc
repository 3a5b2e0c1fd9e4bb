#include "thalweg/launch/signals.h"

#include <signal.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/server/server.h"

namespace thalweg {
namespace {

TEST(SignalsTest, TheFirstCallsAllThatListen) {
  Notification first, second;
  const OnSignal one([&](int signal) { signal == SIGTERM ? first.Notify() : void(); });
  const OnSignal two([&](int) { second.Notify(); });
  raise(SIGTERM);
  EXPECT_TRUE(first.WaitForNotificationWithTimeout(absl::Seconds(60)));
  EXPECT_TRUE(second.WaitForNotificationWithTimeout(absl::Seconds(60)));
}

TEST(SignalsTest, AServerThatWaitsLeaves) {
  auto server = Server::StartLocal();
  ASSERT_THAT(server, IsOk());
  const OnSignal drain([&](int) { (*server)->Drain(); });
  raise(SIGINT);
  EXPECT_THAT((*server)->Join(), IsOk());
}

TEST(SignalsTest, TheSecondEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a process that was started, not forked: it starts a thread
  const auto raise_twice = [] {
    Notification never;
    const OnSignal stuck([&](int) { never.WaitForNotification(); });
    raise(SIGTERM);
    raise(SIGTERM);
    _exit(1);
  };
  EXPECT_EXIT(raise_twice(), testing::KilledBySignal(SIGTERM), "");
}

TEST(SignalsTest, ATrainingStopsAfterItsStep) {
  const std::shared_ptr<Hook> hook = StopOnSignal();
  Graph graph;
  auto session = Session::Create(graph);
  ASSERT_THAT(session, IsOk());
  StepContext before(**session, nullptr);
  ASSERT_THAT(hook->AfterRun(before, {}), IsOk());
  EXPECT_FALSE(before.stop_requested());
  raise(SIGTERM);
  StepContext after(**session, nullptr);
  while (!after.stop_requested()) ASSERT_THAT(hook->AfterRun(after, {}), IsOk());
}

}  // namespace
}  // namespace thalweg
