// Runs closures at given times: deadlines of steps.
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

// One thread, started with the first alarm. Thread-safe. Closures should be
// short: the next waits for them.
class Timer {
 public:
  enum class AlarmId : uint64_t {};

  // The clock is borrowed.
  explicit Timer(Clock& clock = RealClock()) : clock_(clock) {}
  // Alarms that have not gone off never do.
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // How far away `when` is counts from this call on, on a clock that never jumps:
  // setting the machine's time neither delays an alarm nor sets it off.
  AlarmId Set(absl::Time when, absl::AnyInvocable<void()> closure);
  // True: the closure has not run and never will. False: it has run; waits for
  // it to end if it is running, unless it is the one that calls.
  bool Unset(AlarmId id);

 private:
  void RunAlarms();

  Clock& clock_;
  Mutex mu_;
  CondVar changed_;
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  uint64_t running_ ABSL_GUARDED_BY(mu_) = 0;  // the alarm that goes off now
  std::thread::id runner_ ABSL_GUARDED_BY(mu_);
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  // By MonotonicNanos() and number.
  std::map<std::pair<int64_t, uint64_t>, absl::AnyInvocable<void()>> alarms_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, int64_t> times_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Thread> thread_ ABSL_GUARDED_BY(mu_);
};

}  // namespace thalweg
