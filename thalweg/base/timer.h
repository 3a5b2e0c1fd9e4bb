// SPDX-License-Identifier: Apache-2.0
// Runs closures at given times, such as the deadlines of steps.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread.h"

namespace thalweg {

// One thread, started with the first alarm, runs all closures one after the other, so
// they should be short. Thread-safe.
class Timer {
 public:
  enum class AlarmId : uint64_t {};

  // The clock is borrowed.
  explicit Timer(Clock& clock = RealClock()) : clock_(clock) {}
  // Discards the alarms that have not gone off.
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Runs `closure` at `when`. The delay is computed now and measured with a monotonic
  // clock, so setting the machine's time neither delays the alarm nor sets it off.
  AlarmId Set(absl::Time when, absl::AnyInvocable<void()> closure);
  // Cancels an alarm. Returns true if the closure has not run and will not run. Returns
  // false if it has run. If it is running, waits for its end, unless the closure itself
  // makes this call.
  bool Unset(AlarmId id);

 private:
  void RunAlarms();

  Clock& clock_;
  Mutex mu_;
  CondVar changed_;
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  uint64_t running_ ABSL_GUARDED_BY(mu_) = 0;  // the id of the alarm whose closure runs now
  std::thread::id runner_ ABSL_GUARDED_BY(mu_);
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  // By time (MonotonicNanos()) and id.
  std::map<std::pair<int64_t, uint64_t>, absl::AnyInvocable<void()>> alarms_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, int64_t> times_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Thread> thread_ ABSL_GUARDED_BY(mu_);
};

}  // namespace thalweg
