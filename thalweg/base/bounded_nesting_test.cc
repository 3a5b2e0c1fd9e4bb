// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/bounded_nesting.h"

#include <algorithm>
#include <functional>

#include "gtest/gtest.h"

namespace thalweg {
namespace {

TEST(BoundedNesting, ALongChainDoesNotNestDeep) {
  constexpr int kHops = 1'000'000;
  int hops = 0, nested = 0, deepest = 0;
  const std::function<void()> hop = [&] {
    deepest = std::max(deepest, ++nested);
    if (++hops < kHops) RunNested([&] { hop(); });
    --nested;
  };
  RunNested(hop);
  EXPECT_EQ(hops, kHops);
  EXPECT_LE(deepest, 64);
}

// Work that nests deep already may itself begin something and wait for it.
TEST(BoundedNesting, FreshWorkIsOverWhenItReturns) {
  int depth = 0;
  bool inner_was_over = true;
  const std::function<void()> hop = [&] {
    if (++depth < 200) return RunNested([&] { hop(); });
    const FreshNesting fresh;
    bool over = false;
    RunNested([&] { over = true; });
    inner_was_over = over;
  };
  RunNested(hop);
  EXPECT_EQ(depth, 200);
  EXPECT_TRUE(inner_was_over);
}

}  // namespace
}  // namespace thalweg
