// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/clock.h"

#include <thread>

namespace thalweg {
namespace {

class MachineClock final : public Clock {
 public:
  int64_t MonotonicNanos() override { return NowNanos(); }

  int64_t WallMicros() override {
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }

  void SleepNanos(int64_t nanos) override { std::this_thread::sleep_for(std::chrono::nanoseconds(nanos)); }
};

}  // namespace

Clock& RealClock() {
  static MachineClock clock;
  return clock;
}

}  // namespace thalweg
