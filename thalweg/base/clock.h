// SPDX-License-Identifier: Apache-2.0
// Time. Code whose behaviour depends on time (timeouts, rates, retries) takes a Clock, so that tests
// need not wait. Hot paths that only measure use NowNanos().
#pragma once

#include <chrono>
#include <cstdint>

namespace thalweg {

// Nanoseconds since some fixed point; never goes back. About 25 ns a call.
inline int64_t NowNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A source of time. Thread-safe. Users borrow it by reference.
class Clock {
 public:
  virtual ~Clock() = default;

  // Like NowNanos(); for durations and deadlines.
  virtual int64_t MonotonicNanos() = 0;

  // Microseconds since 1970 (UTC): for people and files. May jump.
  virtual int64_t WallMicros() = 0;

  // Returns when MonotonicNanos() has advanced by at least `nanos`.
  virtual void SleepNanos(int64_t nanos) = 0;
};

// The machine's clock. It has no state.
Clock& RealClock();

}  // namespace thalweg
