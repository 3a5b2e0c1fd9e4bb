// SPDX-License-Identifier: Apache-2.0
// Elementary functions written so that loops over them vectorize: no branches, no tables, only instructions
// that every SIMD unit has. Results are within 2 ulp of the exact value (the tests check this), and equal libm's
// for zeros, infinities and NaN.
//
// For double versions that are missing here, libm is used.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace thalweg::vec {

namespace internal {

// Adding 1.5 * 2^(mantissa bits) rounds a number to an integer, which is then in the low bits of the sum.
constexpr float kRoundF = 12582912.0f;
constexpr double kRoundD = 6755399441055744.0;

constexpr float kLn2HiF = 0x1.62e4p-1f, kLn2LoF = 0x1.7f7d1cp-20f;
constexpr double kLn2HiD = 0x1.62e42fefa38p-1, kLn2LoD = 0x1.ef35793c7673p-45;

inline float PowerOfTwo(int32_t n) { return std::bit_cast<float>(static_cast<uint32_t>(n + 127) << 23); }
inline double PowerOfTwo(int64_t n) { return std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52); }

// x = n ln 2 + r with |r| <= ln(2)/2. REQUIRES: |n| is small.
struct ReducedF {
  int32_t n;
  float r;
};
inline ReducedF ReduceByLn2(float x) {
  const float shifted = x * 0x1.715476p+0f + kRoundF;
  const float n = shifted - kRoundF;
  return {static_cast<int32_t>(std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRoundF)),
          (x - n * kLn2HiF) - n * kLn2LoF};
}

// exp(r) - 1 for |r| <= ln(2)/2.
inline float ExpMinusOne(float r) {
  float p = 1.395297013e-03f;
  p = p * r + 8.370321568e-03f;
  p = p * r + 4.166616799e-02f;
  p = p * r + 1.666650670e-01f;
  p = p * r + 5.000000107e-01f;
  return p * (r * r) + r;
}

// log(1 + f) - f + f*f/2 = s * (f*f/2 + R(s*s)), with s = f / (2 + f).
inline float LogSeries(float z) {
  float p = 2.361052610e-01f;
  p = p * z + 2.853588964e-01f;
  p = p * z + 4.000035617e-01f;
  p = p * z + 6.666666556e-01f;
  return p * z;
}

}  // namespace internal

inline float Exp(float x) {
  // Beyond these the result is 0 or infinity; NaN passes both.
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const auto [n, r] = internal::ReduceByLn2(x);
  const float e = internal::ExpMinusOne(r) + 1.0f;
  // Scale in two steps, so that neither power overflows, and denormal results are rounded once.
  const int32_t half = n >> 1;
  return e * internal::PowerOfTwo(half) * internal::PowerOfTwo(n - half);
}

inline double Exp(double x) {
  x = x < -746.0 ? -746.0 : x;
  x = x > 710.0 ? 710.0 : x;
  const double shifted = x * 0x1.71547652b82fep+0 + internal::kRoundD;
  const double n = shifted - internal::kRoundD;
  const double r = (x - n * internal::kLn2HiD) - n * internal::kLn2LoD;
  // Even and odd powers separately: two short dependency chains instead of a long one.
  const double r2 = r * r;
  double a = 1.81844467398932345e-09;
  a = a * r2 + 2.75669253536500421e-07;
  a = a * r2 + 2.48015746896965692e-05;
  a = a * r2 + 1.38888888964136016e-03;
  a = a * r2 + 4.16666666666476379e-02;
  a = a * r2 + 4.99999999999999833e-01;
  double b = 2.50578278281098006e-08;
  b = b * r2 + 2.75574101311017628e-06;
  b = b * r2 + 1.98412697055986957e-04;
  b = b * r2 + 8.33333333339624296e-03;
  b = b * r2 + 1.66666666666665825e-01;
  const double e = ((a + b * r) * r2 + r) + 1.0;
  const int64_t bits =
      static_cast<int64_t>(std::bit_cast<uint64_t>(shifted) - std::bit_cast<uint64_t>(internal::kRoundD));
  // Shift as 32-bit integers: AVX2 has no 64-bit arithmetic shift.
  const int64_t half = static_cast<int32_t>(bits) >> 1;
  return e * internal::PowerOfTwo(half) * internal::PowerOfTwo(bits - half);
}

inline float Expm1(float x) {
  x = x < -20.0f ? -20.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const auto [n, r] = internal::ReduceByLn2(x);
  const float p = internal::ExpMinusOne(r);
  // 2^n p + (2^n - 1), the first power split as in Exp.
  const int32_t half = n >> 1;
  const float a = internal::PowerOfTwo(half), b = internal::PowerOfTwo(n - half);
  const float large = (p + 1.0f) * a * b;  // where the 1 no longer counts, and overflow must give infinity
  const float small = p * a * b + (a * b - 1.0f);
  return n > 60 ? large : small;
}

// log(x) for finite x that are at least the smallest normal number.
inline float LogOfNormal(float x) {
  // The mantissa in [sqrt(1/2), sqrt(2)), and the exponent that goes with it.
  const uint32_t bits = std::bit_cast<uint32_t>(x) - 0x3f3504f3;
  const float e = static_cast<float>(static_cast<int32_t>(bits) >> 23);
  const float f = std::bit_cast<float>((bits & 0x007fffff) + 0x3f3504f3) - 1.0f;
  const float s = f / (2.0f + f);
  const float h = 0.5f * f * f;
  return (s * (h + internal::LogSeries(s * s)) + e * internal::kLn2LoF - h) + f + e * internal::kLn2HiF;
}

// The logarithm of special values: 0, infinity, negative numbers and NaN.
inline float SpecialLog(float x) {
  return x == 0.0f ? -std::numeric_limits<float>::infinity() : x > 0.0f ? x : std::numeric_limits<float>::quiet_NaN();
}

inline float Log(float x) {
  const bool denormal = x < std::numeric_limits<float>::min();
  const float y = LogOfNormal(denormal ? x * 0x1p23f : x) - (denormal ? 0x1.fe2804p+3f : 0.0f);  // 23 log(2)
  return x > 0.0f && x < std::numeric_limits<float>::infinity() ? y : SpecialLog(x);
}

inline float Log1p(float x) {
  const float u = 1.0f + x;
  // Corrects the rounding error of 1 + x to first order.
  const float y = LogOfNormal(u) + (x - (u - 1.0f)) / u;
  return u > 0.0f && u < std::numeric_limits<float>::infinity() ? y : SpecialLog(u);
}

inline float Tanh(float x) {
  float a = std::fabs(x);
  a = a > 10.0f ? 10.0f : a;
  // exp(2a) - 1, which cannot overflow here.
  const auto [n, r] = internal::ReduceByLn2(2.0f * a);
  const float scale = internal::PowerOfTwo(n);
  const float e = internal::ExpMinusOne(r) * scale + (scale - 1.0f);
  return std::copysign(e / (e + 2.0f), x);
}

// The largest magnitude for which Sin and Cos below are precise enough.
constexpr float kLargestAngle = 8000.0f;

// sin(x), or for quarter = 1 cos(x). REQUIRES: |x| <= kLargestAngle.
template <int quarter>
inline float SinOfQuarter(float x) {
  // x = n pi/2 + r; pi/2 in three parts, of which products with n are exact.
  const float shifted = x * 0x1.45f306p-1f + internal::kRoundF;
  const float n = shifted - internal::kRoundF;
  const float r = ((x - n * 0x1.92p+0f) - n * 0x1.fb4p-12f) - n * 0x1.4442d2p-24f;
  const uint32_t quadrant = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(internal::kRoundF) + quarter;
  const float z = r * r;
  float s = 2.716810009e-06f;
  s = s * z - 1.983917608e-04f;
  s = s * z + 8.333328890e-03f;
  s = s * z - 1.666666664e-01f;
  s = s * z * r + r;
  float c = 2.442388660e-05f;
  c = c * z - 1.388724272e-03f;
  c = c * z + 4.166664438e-02f;
  c = c * z * z - 0.5f * z + 1.0f;
  const float y = (quadrant & 1) != 0 ? c : s;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(y) ^ (quadrant & 2) << 30);
}
inline float Sin(float x) { return SinOfQuarter<0>(x); }
inline float Cos(float x) { return SinOfQuarter<1>(x); }

inline float Erf(float x) {
  float a = std::fabs(x);
  const float z = a * a;
  float small = 8.671102999e-05f;
  small = small * z - 8.210662467e-04f;
  small = small * z + 5.206757254e-03f;
  small = small * z - 2.686160810e-02f;
  small = small * z + 1.128373378e-01f;
  small = small * z - 3.761263614e-01f;
  small = small * z + 1.128379167e+00f;
  // Uses 1 - exp(log(erfc(a))), because erfc itself would need a polynomial of high degree.
  a = a > 4.0f ? 4.0f : a;
  float log_erfc = -2.041825846e-05f;
  log_erfc = log_erfc * a + 4.266779307e-04f;
  log_erfc = log_erfc * a - 4.133576072e-03f;
  log_erfc = log_erfc * a + 2.502142487e-02f;
  log_erfc = log_erfc * a - 1.081297942e-01f;
  log_erfc = log_erfc * a - 6.334821945e-01f;
  log_erfc = log_erfc * a - 1.129448700e+00f;
  log_erfc = log_erfc * a + 1.610711108e-04f;
  const float large = 1.0f - Exp(log_erfc);
  return std::fabs(x) < 0.875f ? small * x : std::copysign(large, x);
}

// 1 / (1 + exp(-x)), without overflow on the way.
inline float Sigmoid(float x) {
  const float e = Exp(-std::fabs(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
inline double Sigmoid(double x) {
  const double e = Exp(-std::fabs(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

inline double Expm1(double x) { return std::expm1(x); }
inline double Log(double x) { return std::log(x); }
inline double Log1p(double x) { return std::log1p(x); }
inline double Tanh(double x) { return std::tanh(x); }
inline double Erf(double x) { return std::erf(x); }

}  // namespace thalweg::vec
