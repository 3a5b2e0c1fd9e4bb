// SPDX-License-Identifier: Apache-2.0
// A clock that advances only when a test says so.
#pragma once

#include <atomic>
#include <cstdint>

#include "thalweg/base/clock.h"

namespace thalweg {

// Thread-safe. Sleeping advances the clock and returns immediately.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(int64_t wall_micros = 1'000'000'000'000'000) : start_wall_micros_(wall_micros) {}

  void AdvanceNanos(int64_t nanos) { nanos_.fetch_add(nanos); }

  int64_t MonotonicNanos() override { return nanos_.load(); }
  int64_t WallMicros() override { return start_wall_micros_ + nanos_.load() / 1000; }
  void SleepNanos(int64_t nanos) override { AdvanceNanos(nanos); }

 private:
  const int64_t start_wall_micros_;
  std::atomic<int64_t> nanos_{0};
};

}  // namespace thalweg
