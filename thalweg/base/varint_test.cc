// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/varint.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace thalweg {
namespace {

TEST(Varint, ReadsBackWhatItWrote) {
  std::string bytes;
  const uint64_t values[] = {0, 1, 127, 128, 300, uint64_t{1} << 32, ~uint64_t{0}};
  for (const uint64_t value : values) AppendVarint(&bytes, value);
  absl::string_view rest = bytes;
  for (const uint64_t value : values) {
    uint64_t read = 0;
    ASSERT_TRUE(TakeVarint(&rest, &read)) << value;
    EXPECT_EQ(read, value);
  }
  EXPECT_TRUE(rest.empty());
}

TEST(Varint, RefusesBytesThatEndTooEarlyOrTooLate) {
  uint64_t value = 0;
  for (const std::string& bytes :
       {std::string(), std::string("\x80"), std::string(9, '\xff') + "\x02", std::string(11, '\xff')}) {
    absl::string_view rest = bytes;
    EXPECT_FALSE(TakeVarint(&rest, &value)) << bytes.size();
    EXPECT_EQ(rest.size(), bytes.size());
  }
}

}  // namespace
}  // namespace thalweg
