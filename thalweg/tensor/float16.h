// SPDX-License-Identifier: Apache-2.0
// 16-bit floating point numbers: storage types that compute in float.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace thalweg {

/// @cond INTERNAL
// IEEE binary16. Conversions round to nearest even; NaN stays NaN, with the
// payload that fits. No branches, so that loops of them vectorize.
inline float HalfBitsToFloat(uint16_t bits) {
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fff) << 13;  // where a float has exponent and mantissa
  const uint32_t normal = magnitude + ((127 - 15) << 23);
  const uint32_t special = magnitude | 0x7f800000;  // infinity, NaN
  // A denormal's bits count steps of 2^-24; so do the lowest ones of a float in
  // [2^-14, 2^-13) with 13 bits more.
  const uint32_t denormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude + (113u << 23)) - 0x1p-14f);
  const uint32_t value = magnitude >= 0x7c00u << 13 ? special : magnitude < 0x0400u << 13 ? denormal : normal;
  return std::bit_cast<float>(value | static_cast<uint32_t>(bits & 0x8000) << 16);
}

inline uint16_t FloatToHalfBits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  // Half a step is added, less one bit if the step below is even. The carry may
  // reach the exponent, up to infinity: that is how 65520 rounds.
  const uint32_t normal = (magnitude - ((127 - 15) << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
  // The steps of floats in [0.5, 1) are those of denormal halves: the addition
  // rounds.
  const uint32_t denormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
  const uint32_t nan = 0x7e00 | (magnitude >> 13 & 0x3ff);
  const uint32_t result = magnitude > 0x7f800000    ? nan
                          : magnitude >= 0x47800000 ? 0x7c00u   // 65536 and more
                          : magnitude < 0x38800000  ? denormal  // less than 2^-14
                                                    : normal;
  return static_cast<uint16_t>(result | (bits >> 16 & 0x8000));
}

/// @endcond

// IEEE binary16. Rounds to nearest even; NaN stays NaN. It converts to float for
// arithmetic.
struct Half {
  uint16_t bits = 0;  // sign, exponent, mantissa

  Half() = default;  // zero
  // Rounds a number.
  template <typename T>
  explicit Half(T value) : bits(FloatToHalfBits(static_cast<float>(value))) {}
  operator float() const { return HalfBitsToFloat(bits); }  // exact; NOLINT: implicit by design
  // The number of a bit pattern.
  static Half FromBits(uint16_t bits) {
    Half h;
    h.bits = bits;
    return h;
  }
};

// The upper half of a float. Rounds to nearest even; NaN stays NaN. It converts to
// float for arithmetic.
struct BFloat16 {
  uint16_t bits = 0;  // sign, exponent, mantissa

  BFloat16() = default;  // zero
  // Rounds a number.
  template <typename T>
  explicit BFloat16(T value) : bits(Round(static_cast<float>(value))) {}
  // Exact.
  operator float() const {  // NOLINT: implicit by design
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
  // The number of a bit pattern.
  static BFloat16 FromBits(uint16_t bits) {
    BFloat16 b;
    b.bits = bits;
    return b;
  }

 private:
  static uint16_t Round(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    if (value != value) return static_cast<uint16_t>((u >> 16) | 0x40);
    return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
};

/// @cond INTERNAL
// Compound assignment, so that generic loops can accumulate.
#define THALWEG_FLOAT16_OPS_(T)                                \
  inline T& operator+=(T& a, float b) { return a = T(a + b); } \
  inline T& operator-=(T& a, float b) { return a = T(a - b); } \
  inline T& operator*=(T& a, float b) { return a = T(a * b); } \
  inline T& operator/=(T& a, float b) { return a = T(a / b); } \
  inline T operator-(T a) { return T(-static_cast<float>(a)); }
THALWEG_FLOAT16_OPS_(Half)
THALWEG_FLOAT16_OPS_(BFloat16)
#undef THALWEG_FLOAT16_OPS_
/// @endcond

}  // namespace thalweg

/// @cond INTERNAL
template <>
struct std::numeric_limits<thalweg::Half> {
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, has_infinity = true,
                        has_quiet_NaN = true;
  static thalweg::Half min() { return thalweg::Half::FromBits(0x0400); }
  static thalweg::Half max() { return thalweg::Half::FromBits(0x7bff); }
  static thalweg::Half lowest() { return thalweg::Half::FromBits(0xfbff); }
  static thalweg::Half epsilon() { return thalweg::Half::FromBits(0x1400); }
  static thalweg::Half infinity() { return thalweg::Half::FromBits(0x7c00); }
  static thalweg::Half quiet_NaN() { return thalweg::Half::FromBits(0x7e00); }
};

template <>
struct std::numeric_limits<thalweg::BFloat16> {
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, has_infinity = true,
                        has_quiet_NaN = true;
  static thalweg::BFloat16 min() { return thalweg::BFloat16::FromBits(0x0080); }
  static thalweg::BFloat16 max() { return thalweg::BFloat16::FromBits(0x7f7f); }
  static thalweg::BFloat16 lowest() { return thalweg::BFloat16::FromBits(0xff7f); }
  static thalweg::BFloat16 epsilon() { return thalweg::BFloat16::FromBits(0x3c00); }
  static thalweg::BFloat16 infinity() { return thalweg::BFloat16::FromBits(0x7f80); }
  static thalweg::BFloat16 quiet_NaN() { return thalweg::BFloat16::FromBits(0x7fc0); }
};
/// @endcond
