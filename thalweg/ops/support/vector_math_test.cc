// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/vector_math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace thalweg {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Units in the last place between a float and an exact value.
double Ulps(float actual, double exact) {
  const float rounded = static_cast<float>(exact);
  if (std::isnan(rounded)) return std::isnan(actual) ? 0 : 1e9;
  if (std::isinf(rounded)) {
    // The largest finite number is one unit away from infinity.
    return actual == rounded ? 0 : std::fabs(actual) == std::numeric_limits<float>::max() ? 1 : 1e9;
  }
  if (std::isinf(actual)) return std::fabs(rounded) == std::numeric_limits<float>::max() ? 1 : 1e9;
  const float next = std::nextafter(std::fabs(rounded), kInf);
  const double unit = std::isinf(next) ? 0x1p104 : static_cast<double>(next) - std::fabs(rounded);
  return std::fabs(static_cast<double>(actual) - exact) / unit;
}

// The largest error over every 997th float.
template <typename F, typename G>
double WorstUlps(F f, G exact) {
  double worst = 0;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 997) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    worst = std::max(worst, Ulps(f(x), exact(static_cast<double>(x))));
  }
  return worst;
}

TEST(VectorMathTest, FloatFunctionsAreWithinTwoUlps) {
  EXPECT_LE(WorstUlps([](float x) { return vec::Exp(x); }, [](double x) { return std::exp(x); }), 1.5);
  EXPECT_LE(WorstUlps([](float x) { return vec::Log(x); }, [](double x) { return std::log(x); }), 1.5);
  EXPECT_LE(WorstUlps([](float x) { return vec::Log1p(x); }, [](double x) { return std::log1p(x); }), 2);
  EXPECT_LE(WorstUlps([](float x) { return vec::Expm1(x); }, [](double x) { return std::expm1(x); }), 2);
  EXPECT_LE(WorstUlps([](float x) { return vec::Tanh(x); }, [](double x) { return std::tanh(x); }), 2.5);
  EXPECT_LE(WorstUlps([](float x) { return vec::Sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); }), 2.5);
}

TEST(VectorMathTest, ErrorFunction) {
  EXPECT_LE(WorstUlps([](float x) { return vec::Erf(x); }, [](double x) { return std::erf(x); }), 2.5);
}

// Relative errors grow near the zeros of sine and cosine, so in units of 1.
TEST(VectorMathTest, Angles) {
  for (double x = -vec::kLargestAngle; x <= vec::kLargestAngle; x += 0.00713) {
    const float angle = static_cast<float>(x);
    ASSERT_NEAR(vec::Sin(angle), std::sin(static_cast<double>(angle)), 1.2e-7) << angle;
    ASSERT_NEAR(vec::Cos(angle), std::cos(static_cast<double>(angle)), 1.2e-7) << angle;
  }
  for (float x = 1e-30f; x < 3; x *= 1.01f) ASSERT_LE(Ulps(vec::Sin(x), std::sin(static_cast<double>(x))), 2) << x;
}

TEST(VectorMathTest, DoubleExp) {
  for (double x = -745; x < 709.7; x += 0.0137) {
    const double expected = std::exp(x);
    EXPECT_LE(std::fabs(vec::Exp(x) - expected), 4e-16 * expected + 5e-324) << x;
  }
  EXPECT_EQ(vec::Exp(-800.0), 0.0);
  EXPECT_TRUE(std::isinf(vec::Exp(800.0)));
  EXPECT_TRUE(std::isnan(vec::Exp(std::nan(""))));
}

TEST(VectorMathTest, SpecialValues) {
  EXPECT_EQ(vec::Exp(0.0f), 1.0f);
  EXPECT_EQ(vec::Exp(-kInf), 0.0f);
  EXPECT_EQ(vec::Exp(kInf), kInf);
  EXPECT_TRUE(std::isnan(vec::Exp(kNan)));
  EXPECT_EQ(vec::Log(0.0f), -kInf);
  EXPECT_EQ(vec::Log(-0.0f), -kInf);
  EXPECT_EQ(vec::Log(1.0f), 0.0f);
  EXPECT_EQ(vec::Log(kInf), kInf);
  EXPECT_TRUE(std::isnan(vec::Log(-1.0f)));
  EXPECT_TRUE(std::isnan(vec::Log(kNan)));
  EXPECT_EQ(vec::Log1p(-1.0f), -kInf);
  EXPECT_EQ(vec::Log1p(kInf), kInf);
  EXPECT_TRUE(std::isnan(vec::Log1p(-2.0f)));
  EXPECT_EQ(vec::Expm1(-kInf), -1.0f);
  EXPECT_EQ(vec::Expm1(kInf), kInf);
  EXPECT_EQ(vec::Tanh(kInf), 1.0f);
  EXPECT_EQ(vec::Tanh(-kInf), -1.0f);
  EXPECT_TRUE(std::signbit(vec::Tanh(-0.0f)));
  EXPECT_TRUE(std::isnan(vec::Tanh(kNan)));
  EXPECT_EQ(vec::Sigmoid(-kInf), 0.0f);
  EXPECT_EQ(vec::Sigmoid(kInf), 1.0f);
  EXPECT_TRUE(std::isnan(vec::Sigmoid(kNan)));
}

}  // namespace
}  // namespace thalweg
