// SPDX-License-Identifier: Apache-2.0
#include "thalweg/tensor/float8.h"

#include <cmath>

#include "gtest/gtest.h"

namespace thalweg {
namespace {

// Every bit pattern but those of NaN comes back.
TEST(Float8, EveryValueComesBack) {
  for (const Float8Format& format : {kE5m2, kE4m3fn}) {
    for (int bits = 0; bits < 256; ++bits) {
      const float value = Float8ToFloat(format, static_cast<uint8_t>(bits));
      if (std::isnan(value)) {
        EXPECT_EQ(ToFloat8(format, value) & 0x7f, format.nan);
      } else {
        EXPECT_EQ(ToFloat8(format, value), bits);
      }
    }
  }
}

TEST(Float8, RoundsToNearestEven) {
  EXPECT_EQ(Float8ToFloat(kE5m2, ToFloat8(kE5m2, 1.125)), 1.0f);  // between 1 and 1.25
  EXPECT_EQ(Float8ToFloat(kE5m2, ToFloat8(kE5m2, 1.375)), 1.5f);  // between 1.25 and 1.5
  EXPECT_EQ(Float8ToFloat(kE4m3fn, ToFloat8(kE4m3fn, 1.06)), 1.0f);
  EXPECT_EQ(Float8ToFloat(kE4m3fn, ToFloat8(kE4m3fn, 0x1p-10)), 0.0f);  // half of the smallest, 2^-9
  EXPECT_EQ(Float8ToFloat(kE4m3fn, ToFloat8(kE4m3fn, 0x1.8p-10)), 0x1p-9f);
}

TEST(Float8, LargestValues) {
  EXPECT_EQ(Float8ToFloat(kE5m2, kE5m2.largest), 57344.0f);
  EXPECT_EQ(Float8ToFloat(kE4m3fn, kE4m3fn.largest), 448.0f);
  EXPECT_TRUE(std::isinf(Float8ToFloat(kE5m2, ToFloat8(kE5m2, 1e9))));
  EXPECT_TRUE(std::isnan(Float8ToFloat(kE4m3fn, ToFloat8(kE4m3fn, 1e9))));
  EXPECT_EQ(Float8ToFloat(kE5m2, ToFloat8(kE5m2, -HUGE_VAL)), -HUGE_VALF);
}

}  // namespace
}  // namespace thalweg
