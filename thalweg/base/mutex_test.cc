// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/mutex.h"

#include <chrono>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "thalweg/base/notification.h"

namespace thalweg {
namespace {

TEST(MutexTest, Excludes) {
  Mutex mu;
  int64_t count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        MutexLock lock(&mu);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 4000);
}

TEST(MutexTest, TryLockDoesNotWait) {
  Mutex mu;
  if (!mu.TryLock()) FAIL();
  std::thread other([&] {
    if (mu.TryLock()) {
      mu.Unlock();
      ADD_FAILURE() << "locked twice";
    }
  });
  other.join();
  mu.Unlock();
}

TEST(CondVarTest, WaitEndsWithASignal) {
  Mutex mu;
  CondVar changed;
  int turn = 0;  // the two threads take turns
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) {
      MutexLock lock(&mu);
      while (turn % 2 == 0) changed.Wait(&mu);
      ++turn;
      changed.Signal();
    }
  });
  for (int i = 0; i < 100; ++i) {
    MutexLock lock(&mu);
    while (turn % 2 == 1) {
      if (changed.WaitWithTimeout(&mu, i % 2 == 0 ? absl::InfiniteDuration() : absl::Seconds(60)))
        FAIL() << "time over";
    }
    ++turn;
    changed.SignalAll();
  }
  other.join();
  EXPECT_EQ(turn, 200);
}

// Threads that wait for different things on one variable, and signals that come close together: no wakeup is lost. With
// glibc's condition variables such tests hang once in millions of rounds.
TEST(CondVarTest, NoSignalIsLost) {
  constexpr int kThreads = 3, kItems = 30000;
  Mutex mu;
  CondVar changed;
  int available = 0, taken = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      MutexLock lock(&mu);
      while (true) {
        while (available == 0 && taken < kItems) changed.Wait(&mu);
        if (taken == kItems) return;
        --available;
        if (++taken == kItems) changed.SignalAll();
      }
    });
  }
  for (int i = 0; i < kItems; ++i) {
    {
      MutexLock lock(&mu);
      ++available;
    }
    changed.Signal();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, kItems);
}

TEST(CondVarTest, WaitEndsWithTheTime) {
  Mutex mu;
  CondVar changed;
  MutexLock lock(&mu);
  while (!changed.WaitWithTimeout(&mu, absl::Milliseconds(1))) {
  }
  EXPECT_TRUE(changed.WaitWithTimeout(&mu, -absl::InfiniteDuration()));
  EXPECT_TRUE(changed.WaitWithDeadline(&mu, absl::Now() - absl::Seconds(1)));
  while (!changed.WaitWithDeadline(&mu, absl::Now() + absl::Milliseconds(1))) {
  }
}

TEST(NotificationTest, WaitersSeeWhatCameBefore) {
  for (int i = 0; i < 100; ++i) {
    int value = 0;
    std::thread thread;
    {
      Notification done;
      EXPECT_FALSE(done.HasBeenNotified());
      thread = std::thread([&] {
        value = 5;
        done.Notify();
      });
      if (i % 2 == 0) {
        done.WaitForNotification();
      } else {
        EXPECT_TRUE(done.WaitForNotificationWithTimeout(absl::InfiniteDuration()));
      }
      EXPECT_EQ(value, 5);
      EXPECT_TRUE(done.HasBeenNotified());
    }
    thread.join();
  }
}

TEST(NotificationTest, TimeCanBeOver) {
  Notification never;
  EXPECT_FALSE(never.WaitForNotificationWithTimeout(absl::Milliseconds(2)));
  EXPECT_FALSE(never.WaitForNotificationWithTimeout(absl::ZeroDuration()));
}

TEST(BlockingCounterTest, WaitsForAll) {
  BlockingCounter all(3);
  int values[3] = {};
  std::vector<std::thread> threads;
  for (int& value : values) {
    threads.emplace_back([&] {
      value = 1;
      all.DecrementCount();
    });
  }
  all.Wait();
  for (int value : values) EXPECT_EQ(value, 1);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace thalweg
