// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/crc32c.h"

#include <random>
#include <string>

#include "gtest/gtest.h"

namespace thalweg {
namespace {

// The vectors of RFC 3720, appendix B.4.
TEST(Crc32cTest, KnownVectors) {
  std::string rising, falling;
  for (int i = 0; i < 32; ++i) {
    rising += static_cast<char>(i);
    falling += static_cast<char>(31 - i);
  }
  const struct {
    std::string data;
    uint32_t crc;
  } vectors[] = {
      {"", 0},
      {"123456789", 0xe3069283},
      {std::string(32, '\0'), 0x8a9136aa},
      {std::string(32, '\xff'), 0x62a8ab43},
      {rising, 0x46dd794e},
      {falling, 0x113fdb5c},
  };
  for (const auto& [data, crc] : vectors) {
    EXPECT_EQ(Crc32c(data), crc);
    EXPECT_EQ(internal::ExtendCrc32cPortable(0, data.data(), data.size()), crc);
  }
}

std::string RandomBytes(size_t n) {
  std::mt19937_64 random(17);
  std::string bytes(n, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

TEST(Crc32cTest, BothWaysAgreeAtEveryLengthAndAlignment) {
  const std::string data = RandomBytes(60000);
  for (size_t n : {0, 1, 7, 8, 9, 255, 256, 767, 768, 769, 1536, 5000, 24575, 24576, 24577, 26000, 50000}) {
    for (size_t offset = 0; offset < 9; ++offset) {
      EXPECT_EQ(Crc32c(data.data() + offset, n), internal::ExtendCrc32cPortable(0, data.data() + offset, n))
          << n << " bytes at " << offset;
    }
  }
}

TEST(Crc32cTest, ExtendContinues) {
  const std::string data = RandomBytes(30000);
  const uint32_t whole = Crc32c(data);
  for (size_t split : {0, 1, 100, 4097, 29999, 30000}) {
    const uint32_t first = Crc32c(data.data(), split);
    EXPECT_EQ(ExtendCrc32c(first, data.data() + split, data.size() - split), whole);
    EXPECT_EQ(internal::ExtendCrc32cPortable(first, data.data() + split, data.size() - split), whole);
  }
}

TEST(Crc32cTest, MaskIsUndone) {
  const uint32_t crc = Crc32c("foo");
  EXPECT_NE(MaskCrc(crc), crc);
  EXPECT_NE(MaskCrc(MaskCrc(crc)), crc);
  EXPECT_EQ(UnmaskCrc(MaskCrc(crc)), crc);
  EXPECT_EQ(UnmaskCrc(UnmaskCrc(MaskCrc(MaskCrc(crc)))), crc);
  EXPECT_EQ(MaskCrc(0), kCrcMaskDelta);
}

}  // namespace
}  // namespace thalweg
