// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/string_memory.h"

#include <malloc.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
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

uint64_t ResidentBytesNow() {
  std::ifstream file("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

TEST(StringMemory, ManySmallOnesAreCounted) {
  constexpr size_t kLength = 1000, kMore = size_t{100} << 20;
  // Other tests may have left free memory that these strings take first.
  malloc_trim(0);
  std::vector<std::string> kept;
  LimitStringMemory(ResidentBytesNow() + kMore);
  const absl::Status status = CatchExceptions([&] {
    const std::string text(kLength, 'x');
    while (kept.size() < 1'000'000) {
      ReserveStringMemory(text.size());
      kept.push_back(text);
    }
  });
  LimitStringMemory(0);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GT(kept.size(), kMore / kLength / 4);
}

}  // namespace
}  // namespace thalweg
