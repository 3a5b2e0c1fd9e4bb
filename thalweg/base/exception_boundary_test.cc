// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/exception_boundary.h"

#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/thread_pool.h"
#include "thalweg/base/timer.h"

namespace thalweg {
namespace {

TEST(ExceptionBoundary, ExceptionsBecomeStatuses) {
  EXPECT_TRUE(CatchExceptions([] {}).ok());
  EXPECT_EQ(CatchExceptions([] { throw std::bad_alloc(); }).code(), absl::StatusCode::kResourceExhausted);
  const auto grow = [] { std::vector<int>().reserve(size_t{1} << 62); };
  EXPECT_EQ(CatchExceptions(grow).code(), absl::StatusCode::kResourceExhausted);
  const auto no_thread = [] { throw std::system_error(EAGAIN, std::generic_category()); };
  EXPECT_EQ(CatchExceptions(no_thread).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CatchExceptions([] { throw std::string("x"); }).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(CatchExceptions([] { std::string().at(3); }).code(), absl::StatusCode::kInternal);
}

// Shared threads keep running after a closure has thrown.
TEST(ExceptionBoundary, PoolsAndTimersGoOn) {
  ThreadPool pool("pool", 1);
  Notification ran, rang;
  pool.Schedule([] { throw std::bad_alloc(); });
  pool.Schedule([&] { ran.Notify(); });
  EXPECT_TRUE(ran.WaitForNotificationWithTimeout(absl::Seconds(30)));
  Timer timer;
  timer.Set(absl::Now(), [] { throw std::bad_alloc(); });
  timer.Set(absl::Now(), [&] { rang.Notify(); });
  EXPECT_TRUE(rang.WaitForNotificationWithTimeout(absl::Seconds(30)));
}

}  // namespace
}  // namespace thalweg
