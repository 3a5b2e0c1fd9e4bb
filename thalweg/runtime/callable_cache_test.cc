// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/callable_cache.h"

#include <memory>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/graph_testlib.h"

namespace thalweg {
namespace {

using Cache = CallableCache<const std::string>;

Cache::Result Made(const char* text) { return std::make_shared<const std::string>(text); }

TEST(CallableCache, ACallableIsMadeOnce) {
  Cache cache;
  Cancellation cancellation;
  int made = 0;
  const auto make = [&]() -> Cache::Result {
    ++made;
    return Made("one");
  };
  ASSERT_OK_AND_ASSIGN(const auto first, cache.FindOrMake("key", cancellation, make));
  ASSERT_OK_AND_ASSIGN(const auto second, cache.FindOrMake("key", cancellation, make));
  EXPECT_EQ(first, second);
  EXPECT_EQ(made, 1);
  cache.Clear();
  ASSERT_OK(cache.FindOrMake("key", cancellation, make).status());
  EXPECT_EQ(made, 2);
}

// A thread that makes the callable of "slow" until Finish() says how that ends.
class SlowMaker {
 public:
  explicit SlowMaker(Cache& cache)
      : thread_([this, &cache] {
          result_ = cache.FindOrMake("slow", cancellation_, [this]() -> Cache::Result {
            began_.Notify();
            finish_.WaitForNotification();
            return made_;
          });
        }) {
    began_.WaitForNotification();
  }
  Cache::Result Finish(Cache::Result made) {
    made_ = std::move(made);
    finish_.Notify();
    thread_.join();
    return result_;
  }

 private:
  Cancellation cancellation_;
  Notification began_, finish_;
  Cache::Result made_, result_;
  std::thread thread_;
};

TEST(CallableCache, MakingOneDoesNotHoldUpAnother) {
  Cache cache;
  Cancellation cancellation;
  ASSERT_OK(cache.FindOrMake("known", cancellation, [] { return Made("known"); }).status());
  SlowMaker slow(cache);
  ASSERT_OK_AND_ASSIGN(const auto known, cache.FindOrMake("known", cancellation, [] { return Made("again"); }));
  EXPECT_EQ(*known, "known");
  ASSERT_OK_AND_ASSIGN(const auto fresh, cache.FindOrMake("new", cancellation, [] { return Made("new"); }));
  EXPECT_EQ(*fresh, "new");
  EXPECT_THAT(slow.Finish(Made("slow")).status(), IsOk());
}

TEST(CallableCache, ThoseWhoAskForTheSameGetIt) {
  Cache cache;
  SlowMaker slow(cache);
  Cache::Result found;
  std::thread other([&] {
    Cancellation cancellation;
    found = cache.FindOrMake("slow", cancellation, [] { return Made("never"); });
  });
  const Cache::Result made = slow.Finish(Made("slow"));
  other.join();
  ASSERT_OK(found.status());
  EXPECT_EQ(*found, *made);
}

TEST(CallableCache, AWaitEndsWithItsCancellation) {
  Cache cache;
  SlowMaker slow(cache);
  Cancellation cancellation;
  Cache::Result found;
  std::thread other([&] { found = cache.FindOrMake("slow", cancellation, [] { return Made("never"); }); });
  cancellation.Cancel(Cancelled("enough"));
  other.join();
  EXPECT_THAT(found.status(), Fails(absl::StatusCode::kCancelled, "enough"));
  EXPECT_THAT(slow.Finish(Made("slow")).status(), IsOk());
}

// The error may be a deadline that only the first caller had.
TEST(CallableCache, AfterAnErrorTheNextCallerTries) {
  Cache cache;
  SlowMaker slow(cache);
  Cache::Result found;
  std::thread other([&] {
    Cancellation cancellation;
    found = cache.FindOrMake("slow", cancellation, [] { return Made("second"); });
  });
  EXPECT_THAT(slow.Finish(DeadlineExceeded("too slow")).status(),
              Fails(absl::StatusCode::kDeadlineExceeded, "too slow"));
  other.join();
  ASSERT_OK(found.status());
  EXPECT_EQ(**found, "second");
}

}  // namespace
}  // namespace thalweg
