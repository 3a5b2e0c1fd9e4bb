// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/intra_op_pool.h"

#include <atomic>
#include <chrono>
#include <new>
#include <numeric>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace thalweg {
namespace {

// Runs ParallelFor and checks that every index came exactly once.
void ExpectEachIndexOnce(IntraOpPool& intra_op_pool, int64_t n, int64_t grain) {
  std::vector<std::atomic<int>> seen(n);
  intra_op_pool.ParallelFor(n, grain, [&](int64_t begin, int64_t end) {
    ASSERT_LT(begin, end);
    for (int64_t i = begin; i < end; ++i) seen[i].fetch_add(1, std::memory_order_relaxed);
  });
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(seen[i], 1) << "index " << i << " of " << n << ", grain " << grain;
}

class IntraOpPoolTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Helpers, IntraOpPoolTest, testing::Values(0, 1, 3, 7));

TEST_P(IntraOpPoolTest, EachIndexOnce) {
  IntraOpPool intra_op_pool(GetParam());
  EXPECT_EQ(intra_op_pool.concurrency(), GetParam() + 1);
  for (int64_t n : {0, 1, 2, 3, 7, 64, 100, 1001, 20000}) {
    for (int64_t grain : {0, 1, 2, 10, 64, 5000}) ExpectEachIndexOnce(intra_op_pool, n, grain);
  }
}

// The body lives on the caller's stack: no thread may run it when the exception leaves the call.
TEST_P(IntraOpPoolTest, AnExceptionEndsTheCallAndNotTheProcess) {
  IntraOpPool intra_op_pool(GetParam());
  for (const int thrower : {0, 1, 63}) {
    std::atomic<int> running{0};
    EXPECT_THROW(intra_op_pool.Run(64,
                                   [&](int shard) {
                                     ++running;
                                     if (shard == thrower) {
                                       --running;
                                       throw std::bad_alloc();
                                     }
                                     std::this_thread::sleep_for(std::chrono::microseconds(100));
                                     --running;
                                   }),
                 std::bad_alloc);
    EXPECT_EQ(running, 0);
  }
  ExpectEachIndexOnce(intra_op_pool, 1000, 1);
}

TEST_P(IntraOpPoolTest, EachShardOnce) {
  IntraOpPool intra_op_pool(GetParam());
  for (int shards : {0, 1, 2, 3, 17, 200}) {
    std::vector<std::atomic<int>> seen(shards);
    intra_op_pool.Run(shards, [&](int shard) { ++seen[shard]; });
    for (const auto& count : seen) EXPECT_EQ(count, 1);
  }
}

TEST_P(IntraOpPoolTest, ManyJobsInARow) {
  IntraOpPool intra_op_pool(GetParam());
  int64_t results[64];
  for (int64_t job = 0; job < 20000; ++job) {
    // The results are plain memory: written by any thread, read by the caller.
    intra_op_pool.ParallelFor(64, 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) results[i] = job + i;
    });
    ASSERT_EQ(std::accumulate(results, results + 64, int64_t{0}), 64 * job + 63 * 32);
  }
}

TEST_P(IntraOpPoolTest, JobsFarApartFindSleepingHelpers) {
  IntraOpPool intra_op_pool(GetParam());
  for (int i = 0; i < 50; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    ExpectEachIndexOnce(intra_op_pool, 100, 1);
  }
}

TEST_P(IntraOpPoolTest, CallerSleepsThroughALongShard) {
  IntraOpPool intra_op_pool(GetParam());
  for (int i = 0; i < 10; ++i) {
    std::atomic<int> done{0};
    intra_op_pool.Run(2, [&](int shard) {
      std::this_thread::sleep_for(std::chrono::milliseconds(shard == 0 ? 1 : 3));
      ++done;
    });
    EXPECT_EQ(done, 2);
  }
}

TEST_P(IntraOpPoolTest, NestedCallsRunInline) {
  IntraOpPool intra_op_pool(GetParam());
  std::atomic<int64_t> sum{0};
  intra_op_pool.ParallelFor(16, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const std::thread::id self = std::this_thread::get_id();
      intra_op_pool.ParallelFor(100, 1, [&](int64_t b, int64_t e) {
        EXPECT_EQ(std::this_thread::get_id(), self);
        sum += e - b;
      });
    }
  });
  EXPECT_EQ(sum, 1600);
}

TEST_P(IntraOpPoolTest, SeveralCallersAtOnce) {
  IntraOpPool intra_op_pool(GetParam());
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&intra_op_pool] {
      for (int i = 0; i < 300; ++i) ExpectEachIndexOnce(intra_op_pool, 97, 3);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST_P(IntraOpPoolTest, BothRunsBoth) {
  IntraOpPool intra_op_pool(GetParam());
  for (int i = 0; i < 1000; ++i) {
    int first = 0, second = 0;
    intra_op_pool.Both([&] { first = i; }, [&] { second = 2 * i; });
    ASSERT_EQ(first, i);
    ASSERT_EQ(second, 2 * i);
  }
}

TEST(IntraOpPoolSharingTest, SmallLoopsStayOnTheCaller) {
  IntraOpPool intra_op_pool(3);
  const std::thread::id self = std::this_thread::get_id();
  for (int i = 0; i < 1000; ++i) {
    int calls = 0;
    intra_op_pool.ParallelFor(64, 64, [&](int64_t begin, int64_t end) {
      ++calls;
      EXPECT_EQ(std::this_thread::get_id(), self);
      EXPECT_EQ(begin, 0);
      EXPECT_EQ(end, 64);
    });
    EXPECT_EQ(calls, 1);
  }
}

TEST(IntraOpPoolSharingTest, HelpersDoTheirOwnPartFirstThenTheEndsOfOthers) {
  IntraOpPool intra_op_pool(1);
  const std::thread::id self = std::this_thread::get_id();
  std::vector<int> helped;
  std::atomic<size_t> helps{0};
  intra_op_pool.Run(8, [&](int shard) {
    if (std::this_thread::get_id() != self) {
      helped.push_back(shard);
      ++helps;
      return;
    }
    // The caller is kept in shard 0 until the helper has done all others.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (helps < 7 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  });
  EXPECT_EQ(helped, (std::vector<int>{4, 5, 6, 7, 3, 2, 1}));
}

TEST(IntraOpPoolSharingTest, HelpersTakePart) {
  IntraOpPool intra_op_pool(1);
  std::atomic<bool> helper_came{false};
  const std::thread::id self = std::this_thread::get_id();
  intra_op_pool.Run(2, [&](int shard) {
    if (std::this_thread::get_id() != self) helper_came = true;
    // The caller is kept in shard 0 until the helper has shard 1.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (shard == 0 && !helper_came && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  });
  EXPECT_TRUE(helper_came);
}

}  // namespace
}  // namespace thalweg
