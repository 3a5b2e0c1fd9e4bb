// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/string_memory.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "thalweg/base/exception_boundary.h"

namespace thalweg {
namespace {

TEST(StringMemory, MoreThanTheLimitIsRefused) {
  EXPECT_TRUE(CatchExceptions([] { ReserveStringMemory(1000); }).ok());
  const absl::Status huge = CatchExceptions([] { ReserveStringMemory(size_t{1} << 60); });
  EXPECT_EQ(huge.code(), absl::StatusCode::kResourceExhausted) << huge;
  EXPECT_TRUE(CatchExceptions([] { ReserveStringMemory(1000); }).ok()) << "the next one fits";
}

TEST(StringMemory, ManySmallOnesAreCounted) {
  std::vector<std::string> kept;
  LimitStringMemory(size_t{1} << 30);
  const absl::Status status = CatchExceptions([&] {
    const std::string text(1000, 'x');
    while (kept.size() < 4'000'000) {
      ReserveStringMemory(text.size());
      kept.push_back(text);
    }
  });
  LimitStringMemory(0);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GT(kept.size(), 100'000);
  EXPECT_LT(kept.size(), 1'100'000);
}

}  // namespace
}  // namespace thalweg
