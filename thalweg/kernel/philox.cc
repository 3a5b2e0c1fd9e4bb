// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/philox.h"

#include <random>

#include "thalweg/base/simd.h"

namespace thalweg {
namespace {

constexpr int kLanes = 32;  // fewer, and g++ unrolls the loops instead of vectorizing them

// kLanes consecutive counts at once, side by side. The halves of each product
// are computed apart: so they stay 32 bits wide. `low` must not wrap.
THALWEG_SIMD void FillLanes(uint64_t low, const uint32_t* high, const uint32_t* key, int64_t groups, uint32_t* out) {
  for (int64_t g = 0; g < groups; ++g, low += kLanes, out += 4 * kLanes) {
    uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      c0[i] = static_cast<uint32_t>(low + i);
      c1[i] = static_cast<uint32_t>((low + i) >> 32);
      c2[i] = high[0];
      c3[i] = high[1];
    }
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; ++round) {
      for (int i = 0; i < kLanes; ++i) {
        const uint32_t high0 = static_cast<uint64_t>(Philox::kMultiply0) * c0[i] >> 32;
        const uint32_t high1 = static_cast<uint64_t>(Philox::kMultiply1) * c2[i] >> 32;
        const uint32_t low0 = Philox::kMultiply0 * c0[i], low1 = Philox::kMultiply1 * c2[i];
        c0[i] = high1 ^ c1[i] ^ k0;
        c1[i] = low1;
        c2[i] = high0 ^ c3[i] ^ k1;
        c3[i] = low0;
      }
      k0 += Philox::kWeyl0;
      k1 += Philox::kWeyl1;
    }
    for (int i = 0; i < kLanes; ++i) {
      out[4 * i] = c0[i];
      out[4 * i + 1] = c1[i];
      out[4 * i + 2] = c2[i];
      out[4 * i + 3] = c3[i];
    }
  }
}

}  // namespace

void Philox::Fill(int64_t blocks, uint32_t* out) {
  const int64_t groups = blocks / kLanes;
  const uint64_t low = LowCounter();
  if (groups > 0 && low <= ~uint64_t{0} - static_cast<uint64_t>(blocks)) {
    FillLanes(low, &counter_[2], key_.data(), groups, out);
    Skip(static_cast<uint64_t>(groups * kLanes));
    out += 4 * kLanes * groups;
    blocks -= kLanes * groups;
  }
  for (int64_t i = 0; i < blocks; ++i) {
    for (const uint32_t number : (*this)()) *out++ = number;
  }
}

void SharedPhilox::Seed(int64_t seed, int64_t seed2) {
  if (seed == 0 && seed2 == 0) {
    std::random_device random;
    const auto word = [&] { return static_cast<int64_t>(static_cast<uint64_t>(random()) << 32 | random()); };
    seed = word();
    seed2 = word();
  }
  MutexLock lock(&mutex_);
  generator_ = Philox(static_cast<uint64_t>(seed), static_cast<uint64_t>(seed2));
}

}  // namespace thalweg
