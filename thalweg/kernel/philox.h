// SPDX-License-Identifier: Apache-2.0
// Random numbers as TensorFlow draws them, bit for bit: Philox4x32-10 (Salmon
// et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011). A generator
// is a function of a 128-bit counter and a 64-bit key, so it can jump to any place of
// the sequence. Threads skip to their part, and results do not depend on the number of
// threads.
#pragma once

#include <array>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "thalweg/base/mutex.h"

namespace thalweg {

// A value type: a copy continues independently from the same state.
class Philox {
 public:
  using Block = std::array<uint32_t, 4>;  // four numbers per count
  using Key = std::array<uint32_t, 2>;

  // From the seeds of an op: `seed` is the key, `seed2` the upper half of the counter.
  explicit Philox(uint64_t seed, uint64_t seed2 = 0)
      : counter_{0, 0, static_cast<uint32_t>(seed2), static_cast<uint32_t>(seed2 >> 32)},
        key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)} {}
  Philox(const Block& counter, const Key& key) : counter_(counter), key_(key) {}

  const Block& counter() const { return counter_; }
  const Key& key() const { return key_; }

  // The next four numbers.
  Block operator()() {
    const Block block = At(counter_, key_);
    if (++counter_[0] == 0 && ++counter_[1] == 0 && ++counter_[2] == 0) ++counter_[3];
    return block;
  }

  // As if called `count` times.
  void Skip(uint64_t count) {
    const uint64_t low = LowCounter() + count;
    counter_[0] = static_cast<uint32_t>(low);
    counter_[1] = static_cast<uint32_t>(low >> 32);
    if (low < count && ++counter_[2] == 0) ++counter_[3];
  }

  // Writes the next 4 * blocks numbers to `out`. Vectorized.
  void Fill(int64_t blocks, uint32_t* out);

  // The Philox function: the numbers at counter `c` for key `k`.
  static Block At(Block c, Key k) {
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = static_cast<uint64_t>(kMultiply0) * c[0];
      const uint64_t p1 = static_cast<uint64_t>(kMultiply1) * c[2];
      c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
           static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
      k[0] += kWeyl0;
      k[1] += kWeyl1;
    }
    return c;
  }

  static constexpr uint32_t kMultiply0 = 0xD2511F53, kMultiply1 = 0xCD9E8D57;
  static constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;

 private:
  uint64_t LowCounter() const { return static_cast<uint64_t>(counter_[1]) << 32 | counter_[0]; }

  Block counter_;
  Key key_;
};

// Returns one number at a time.
class PhiloxSingle {
 public:
  explicit PhiloxSingle(Philox generator) : generator_(generator) {}
  uint32_t operator()() {
    if (used_ == 4) {
      block_ = generator_();
      used_ = 0;
    }
    return block_[used_++];
  }

 private:
  Philox generator_;
  Philox::Block block_ = {};
  int used_ = 4;
};

// A generator that all calls of one kernel share. Each call reserves its part of the
// sequence. Thread-safe.
class SharedPhilox {
 public:
  // If both seeds are 0, the sequence is seeded randomly and cannot be reproduced.
  void Seed(int64_t seed, int64_t seed2);

  // Returns the current state and advances by `blocks` blocks of four numbers.
  Philox Reserve(int64_t blocks) {
    MutexLock lock(&mutex_);
    const Philox reserved = generator_;
    generator_.Skip(static_cast<uint64_t>(blocks));
    return reserved;
  }

 private:
  Mutex mutex_;
  Philox generator_ ABSL_GUARDED_BY(mutex_){0};
};

}  // namespace thalweg
