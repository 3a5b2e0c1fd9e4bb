// SPDX-License-Identifier: Apache-2.0
// Integers and floats from a stream of random words, derived as TensorFlow does.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "thalweg/kernel/philox.h"

namespace thalweg {

// An unbiased number below n. Draws again if the random word would favour small results.
template <typename U, typename Draw>
U UniformBelow(U n, const Draw& draw) {
  if ((n & (n - 1)) == 0) return draw() & (n - 1);
  const U smallest = std::numeric_limits<U>::max() % n + 1;
  U x = draw();
  while (x < smallest) x = draw();
  return x % n;
}

// The same with 64 bits. REQUIRES: n > 0.
inline int64_t UniformBelow(int64_t n, PhiloxSingle& random) {
  return static_cast<int64_t>(UniformBelow<uint64_t>(static_cast<uint64_t>(n), [&] {
    const uint64_t low = random();
    return low | static_cast<uint64_t>(random()) << 32;
  }));
}

// A float in [0, 1): 23 bits of the word behind the exponent of 1.
inline float UniformFloat(PhiloxSingle& random) {
  return std::bit_cast<float>(0x3f800000u | (random() & 0x7fffffu)) - 1.0f;
}

}  // namespace thalweg
