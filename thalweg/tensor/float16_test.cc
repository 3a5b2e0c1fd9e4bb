// SPDX-License-Identifier: Apache-2.0
#include "thalweg/tensor/float16.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace thalweg {
namespace {

// The value of a bit pattern by the standard.
double Meaning(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
  double value = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  if (exponent == 31) value = mantissa == 0 ? INFINITY : NAN;
  return bits & 0x8000 ? -value : value;
}

TEST(Half, EveryPatternMeansWhatTheStandardSays) {
  for (int bits = 0; bits < 65536; ++bits) {
    const float value = HalfBitsToFloat(bits);
    const double meaning = Meaning(bits);
    if (std::isnan(meaning)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_TRUE(std::isnan(HalfBitsToFloat(FloatToHalfBits(value)))) << bits;
    } else {
      ASSERT_EQ(value, meaning) << bits;
      ASSERT_EQ(FloatToHalfBits(value), bits);
    }
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
  }
}

// Between any two neighbours: up to the middle down, from the middle on up, the
// middle itself to the even one.
TEST(Half, RoundsToNearestEven) {
  for (int bits = 0; bits < 0x7bff; ++bits) {
    const float below = HalfBitsToFloat(bits), above = HalfBitsToFloat(bits + 1);
    const float middle = (below + above) / 2;  // exact: a float has 13 bits more
    ASSERT_EQ(FloatToHalfBits(middle), bits + (bits & 1)) << middle;
    ASSERT_EQ(FloatToHalfBits(std::nextafter(middle, 0.0f)), bits) << middle;
    ASSERT_EQ(FloatToHalfBits(std::nextafter(middle, 1e9f)), bits + 1) << middle;
    ASSERT_EQ(FloatToHalfBits(-middle), (bits + (bits & 1)) | 0x8000) << middle;
  }
}

TEST(Half, OverflowsToInfinityAndUnderflowsToZero) {
  EXPECT_EQ(FloatToHalfBits(65504.0f), 0x7bff);
  EXPECT_EQ(FloatToHalfBits(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(FloatToHalfBits(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalfBits(65536.0f), 0x7c00);
  EXPECT_EQ(FloatToHalfBits(-std::numeric_limits<float>::max()), 0xfc00);
  EXPECT_EQ(FloatToHalfBits(INFINITY), 0x7c00);
  EXPECT_EQ(FloatToHalfBits(0x1p-25f), 0);
  EXPECT_EQ(FloatToHalfBits(std::nextafter(0x1p-25f, 1.0f)), 1);
  EXPECT_EQ(FloatToHalfBits(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(FloatToHalfBits(-0.0f), 0x8000);
}

TEST(Half, NanStaysNan) {
  // A payload only in the bits that are cut off.
  EXPECT_TRUE(std::isnan(HalfBitsToFloat(FloatToHalfBits(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(HalfBitsToFloat(FloatToHalfBits(std::bit_cast<float>(0xffffffffu)))));
  EXPECT_TRUE(std::isnan(static_cast<float>(std::numeric_limits<Half>::quiet_NaN())));
}

TEST(BFloat16, RoundsToNearestEvenAndKeepsNan) {
  for (uint32_t bits = 0; bits < 0x7f7f; ++bits) {
    const float middle = std::bit_cast<float>(bits << 16 | 0x8000);
    ASSERT_EQ(BFloat16(middle).bits, bits + (bits & 1));
    ASSERT_EQ(BFloat16(std::bit_cast<float>(bits << 16 | 0x7fff)).bits, bits);
    ASSERT_EQ(BFloat16(std::bit_cast<float>(bits << 16 | 0x8001)).bits, bits + 1);
    ASSERT_EQ(static_cast<float>(BFloat16::FromBits(bits)), std::bit_cast<float>(bits << 16));
  }
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::bit_cast<float>(0xffffffffu)))));
}

TEST(Float16, ComputesInFloat) {
  Half h(1.5);
  h += 2;
  h *= 2;
  EXPECT_EQ(h, 7.0f);
  EXPECT_EQ(-h, -7.0f);
  EXPECT_LT(h, Half(8));
  BFloat16 b(3);
  b -= 1;
  b /= 4;
  EXPECT_EQ(b, 0.5f);
}

TEST(Float16, LimitsAreThoseOfTheFormats) {
  using H = std::numeric_limits<Half>;
  EXPECT_EQ(H::max(), 65504.0f);
  EXPECT_EQ(H::lowest(), -65504.0f);
  EXPECT_EQ(H::min(), 0x1p-14f);
  EXPECT_EQ(H::epsilon(), 0x1p-10f);
  EXPECT_EQ(H::infinity(), INFINITY);
  using B = std::numeric_limits<BFloat16>;
  EXPECT_EQ(B::max(), 0x1.fep127f);
  EXPECT_EQ(B::lowest(), -0x1.fep127f);
  EXPECT_EQ(B::min(), 0x1p-126f);
  EXPECT_EQ(B::epsilon(), 0x1p-7f);
  EXPECT_EQ(B::infinity(), INFINITY);
}

}  // namespace
}  // namespace thalweg
