// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/thread_pool.h"

#include <pthread.h>

#include <atomic>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/notification.h"

namespace thalweg {
namespace {

std::string OwnName() {
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return name;
}

TEST(ThreadTest, JoinsAndIsNamed) {
  std::string name;
  {
    Thread thread("a_name_longer_than_fits", [&] { name = OwnName(); });
  }
  EXPECT_EQ(name, "a_name_longer_t");
  EXPECT_GE(AvailableCores(), 1);
}

TEST(ThreadPoolTest, DestructionRunsWhatIsQueued) {
  std::atomic<int> runs{0};
  {
    ThreadPool pool("pool", 3);
    EXPECT_EQ(pool.size(), 3);
    for (int i = 0; i < 1000; ++i) pool.Schedule([&] { ++runs; });
  }
  EXPECT_EQ(runs, 1000);
}

TEST(ThreadPoolTest, DestructionRunsWhatClosuresSchedule) {
  std::atomic<int> runs{0};
  {
    ThreadPool pool("pool", 2);
    for (int i = 0; i < 10; ++i) {
      pool.Schedule([&] {
        ++runs;
        pool.Schedule([&] { ++runs; });
      });
    }
  }
  EXPECT_EQ(runs, 20);
}

TEST(ThreadPoolTest, OneThreadKeepsTheOrder) {
  std::string order;
  {
    ThreadPool pool("pool", 1);
    for (char c = 'a'; c <= 'z'; ++c) pool.Schedule([&order, c] { order += c; });
  }
  EXPECT_EQ(order, "abcdefghijklmnopqrstuvwxyz");
}

TEST(ThreadPoolTest, ClosuresRunAtTheSameTimeOnNamedThreads) {
  Mutex mu;
  std::set<std::string> names;
  {
    BlockingCounter both(2);
    ThreadPool pool("a_rather_long_name", 2);
    for (int i = 0; i < 2; ++i) {
      pool.Schedule([&] {
        both.DecrementCount();
        both.Wait();
        MutexLock lock(&mu);
        names.insert(OwnName());
      });
    }
  }
  EXPECT_EQ(names, (std::set<std::string>{"a_rather_long/0", "a_rather_long/1"}));
}

}  // namespace
}  // namespace thalweg
