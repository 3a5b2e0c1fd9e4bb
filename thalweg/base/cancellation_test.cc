// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/cancellation.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

using CallbackId = Cancellation::CallbackId;

TEST(CancellationTest, StartsRunning) {
  Cancellation cancellation;
  EXPECT_FALSE(cancellation.cancelled());
  EXPECT_TRUE(cancellation.status().ok());
}

TEST(CancellationTest, FirstReasonStays) {
  Cancellation cancellation;
  cancellation.Cancel(Unavailable("peer died"));
  cancellation.Cancel(DeadlineExceeded("too late"));
  EXPECT_TRUE(cancellation.cancelled());
  EXPECT_EQ(cancellation.status(), Unavailable("peer died"));
}

TEST(CancellationTest, RunsEveryCallbackOnce) {
  Cancellation cancellation;
  int runs[3] = {};
  absl::Status seen;
  for (int& run : runs) {
    ASSERT_TRUE(cancellation.Register([&](const absl::Status& reason) {
      ++run;
      seen = reason;
    }));
  }
  cancellation.Cancel(Aborted("stop"));
  cancellation.Cancel(Aborted("stop again"));
  for (int run : runs) EXPECT_EQ(run, 1);
  EXPECT_EQ(seen, Aborted("stop"));
}

TEST(CancellationTest, RegisterAfterCancelKeepsNothing) {
  Cancellation cancellation;
  cancellation.Cancel(Cancelled("stop"));
  auto witness = std::make_shared<int>(0);
  EXPECT_FALSE(cancellation.Register([witness](const absl::Status&) { ++*witness; }));
  EXPECT_EQ(*witness, 0);
  EXPECT_EQ(witness.use_count(), 1);
}

TEST(CancellationTest, DeregisteredCallbackNeverRuns) {
  Cancellation cancellation;
  std::vector<CallbackId> ids;
  int runs = 0;
  for (int i = 0; i < 10; ++i) ids.push_back(*cancellation.Register([&](const absl::Status&) { ++runs; }));
  EXPECT_TRUE(cancellation.Deregister(ids[3]));
  EXPECT_TRUE(cancellation.TryDeregister(ids[7]));
  EXPECT_FALSE(cancellation.Deregister(ids[3]));
  EXPECT_FALSE(cancellation.TryDeregister(ids[7]));
  cancellation.Cancel(Cancelled("stop"));
  EXPECT_EQ(runs, 8);
  EXPECT_FALSE(cancellation.Deregister(ids[0]));
}

TEST(CancellationTest, CallbackMayUseTheCancellation) {
  Cancellation cancellation;
  CallbackId own{}, other{};
  int other_runs = 0;
  // One of the two callbacks runs first and deregisters the other.
  for (CallbackId* id : {&own, &other}) {
    *id = *cancellation.Register([&, id](const absl::Status& reason) {
      EXPECT_EQ(cancellation.status(), reason);
      EXPECT_FALSE(cancellation.Deregister(*id));
      other_runs += cancellation.Deregister(id == &own ? other : own) ? 0 : 1;
      EXPECT_FALSE(cancellation.Register([](const absl::Status&) {}));
      cancellation.Cancel(Internal("ignored"));
    });
  }
  cancellation.Cancel(Cancelled("stop"));
  EXPECT_EQ(other_runs, 0);
}

TEST(CancellationTest, DeregisterWaitsForTheRunningCallback) {
  Cancellation cancellation;
  Notification entered, leave;
  std::atomic<bool> ended{false};
  const CallbackId id = *cancellation.Register([&](const absl::Status&) {
    entered.Notify();
    leave.WaitForNotification();
    ended = true;
  });
  std::thread canceller([&] { cancellation.Cancel(Cancelled("stop")); });
  entered.WaitForNotification();
  EXPECT_FALSE(cancellation.TryDeregister(id));
  EXPECT_FALSE(ended);
  std::thread release([&] { leave.Notify(); });
  EXPECT_FALSE(cancellation.Deregister(id));
  EXPECT_TRUE(ended);
  release.join();
  canceller.join();
}

TEST(CancellationTest, RacesEndWithExactlyOneOutcome) {
  for (int round = 0; round < 200; ++round) {
    Cancellation cancellation;
    std::atomic<int> runs{0}, removed{0}, refused{0};
    constexpr int kThreads = 4, kEach = 20;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < kEach; ++i) {
          const auto id = cancellation.Register([&](const absl::Status&) { ++runs; });
          if (!id) {
            ++refused;
          } else if (i % 2 == 0 && cancellation.Deregister(*id)) {
            ++removed;
          }
        }
      });
    }
    for (int t = 0; t < 2; ++t) threads.emplace_back([&] { cancellation.Cancel(Cancelled("stop")); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(runs + removed + refused, kThreads * kEach);
  }
}

}  // namespace
}  // namespace thalweg
