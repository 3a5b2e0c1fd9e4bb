// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/resolve.h"

#include <atomic>
#include <memory>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"

namespace thalweg {
namespace {

bool NotCancelled() { return false; }

TEST(ResolveHost, FindsNamesAndNumbers) {
  for (const char* const host : {"127.0.0.1", "localhost", ""}) {
    const auto list = ResolveHost(host, 80, host[0] == '\0' ? AI_PASSIVE : 0, absl::InfiniteFuture(), NotCancelled);
    ASSERT_TRUE(list.ok()) << list.status();
    EXPECT_NE(list->get(), nullptr);
  }
  EXPECT_TRUE(absl::IsUnavailable(ResolveHost("no such name", 80, 0, absl::InfiniteFuture(), NotCancelled).status()));
}

// A name server that does not answer.
TEST(ResolveHost, NobodyWaitsLongerThanTheyWant) {
  const auto silent = std::make_shared<Notification>();
  const auto ended = std::make_shared<std::atomic<int>>(0);
  const HostLookup lookup = [silent, ended](const char*, const char*, const addrinfo*, addrinfo**) {
    silent->WaitForNotification();
    ++*ended;
    return EAI_AGAIN;
  };
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      ResolveHost("far", 80, 0, absl::Now() + absl::Milliseconds(1), NotCancelled, lookup).status()));
  EXPECT_TRUE(absl::IsCancelled(ResolveHost(
                                    "far", 80, 0, absl::InfiniteFuture(), [] { return true; }, lookup)
                                    .status()));
  int refused = 0;
  for (int i = 0; i < 100; ++i) {
    refused += absl::IsResourceExhausted(ResolveHost("far", 80, 0, absl::Now(), NotCancelled, lookup).status());
  }
  EXPECT_EQ(refused, 100 - 62) << "threads are bounded";
  EXPECT_TRUE(ResolveHost("127.0.0.1", 80, 0, absl::Now(), NotCancelled).ok()) << "needs no lookup";
  silent->Notify();
  while (*ended < 64) absl::SleepFor(absl::Milliseconds(1));
}

}  // namespace
}  // namespace thalweg
