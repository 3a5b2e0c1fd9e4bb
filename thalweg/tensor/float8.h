// SPDX-License-Identifier: Apache-2.0
// 8-bit floating point numbers as bit patterns. They are stored and moved, and
// cast to wider types for arithmetic.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "thalweg/tensor/dtype.h"

namespace thalweg {

// e5m2 has the infinities and NaNs of IEEE types. e4m3fn has no infinity, and
// one NaN per sign.
struct Float8Format {
  int mantissa_bits;
  int bias;
  uint8_t largest;   // finite
  uint8_t overflow;  // for numbers that round to more than that
  uint8_t nan;
};
inline constexpr Float8Format kE5m2 = {2, 15, 0x7b, 0x7c, 0x7e};
inline constexpr Float8Format kE4m3fn = {3, 7, 0x7e, 0x7f, 0x7f};

// REQUIRES: IsFloat8(dtype).
inline const Float8Format& FormatOf(DType dtype) { return dtype == kFloat8E5m2 ? kE5m2 : kE4m3fn; }

inline float Float8ToFloat(const Float8Format& format, uint8_t bits) {
  const int magnitude = bits & 0x7f;
  float value;
  if (magnitude > format.largest) {
    value = magnitude == format.overflow && format.overflow != format.nan ? HUGE_VALF : NAN;
  } else {
    const int exponent = std::max(magnitude >> format.mantissa_bits, 1);
    const int mantissa = magnitude - ((exponent - 1) << format.mantissa_bits);
    value = std::ldexp(static_cast<float>(mantissa), exponent - format.bias - format.mantissa_bits);
  }
  return (bits & 0x80) != 0 ? -value : value;
}

// Rounds to nearest even.
inline uint8_t ToFloat8(const Float8Format& format, double value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | format.nan;
  if (std::isinf(value)) return sign | format.overflow;
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude < 2^exponent
  exponent = std::max(exponent - 1, 1 - format.bias);
  // Steps of the last bit. A normal number's leading one adds 1 to the exponent.
  const double steps = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  const int64_t bits = static_cast<int64_t>(steps) + (int64_t{exponent + format.bias - 1} << format.mantissa_bits);
  return sign | (bits > format.largest ? format.overflow : static_cast<uint8_t>(bits));
}

}  // namespace thalweg
