// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/timer.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "thalweg/base/exception_boundary.h"

namespace thalweg {

Timer::~Timer() {
  std::unique_ptr<Thread> thread;
  {
    MutexLock lock(&mu_);
    closing_ = true;
    changed_.SignalAll();
    thread = std::move(thread_);
  }
}

Timer::AlarmId Timer::Set(absl::Time when_on_wall, absl::AnyInvocable<void()> closure) {
  // Bounded, so that the sum does not overflow.
  const absl::Duration away = std::clamp(when_on_wall - absl::Now(), absl::ZeroDuration(), absl::Hours(24 * 365));
  const int64_t when = clock_.MonotonicNanos() + absl::ToInt64Nanoseconds(away);
  MutexLock lock(&mu_);
  if (thread_ == nullptr) thread_ = std::make_unique<Thread>("timer", [this] { RunAlarms(); });
  const uint64_t id = next_id_++;
  const bool is_first = alarms_.empty() || when < alarms_.begin()->first.first;
  alarms_.emplace(std::pair(when, id), std::move(closure));
  times_.emplace(id, when);
  if (is_first) changed_.SignalAll();
  return AlarmId{id};
}

bool Timer::Unset(AlarmId alarm) {
  const uint64_t id = static_cast<uint64_t>(alarm);
  absl::AnyInvocable<void()> dropped;  // destroyed after the lock is gone
  MutexLock lock(&mu_);
  const auto it = times_.find(id);
  if (it == times_.end()) {
    if (runner_ == std::this_thread::get_id()) return false;
    while (running_ == id) changed_.Wait(&mu_);
    return false;
  }
  const auto entry = alarms_.find(std::pair(it->second, id));
  dropped = std::move(entry->second);
  alarms_.erase(entry);
  times_.erase(it);
  return true;
}

void Timer::RunAlarms() {
  mu_.Lock();
  runner_ = std::this_thread::get_id();
  while (!closing_) {
    if (alarms_.empty()) {
      changed_.Wait(&mu_);
      continue;
    }
    const auto first = alarms_.begin();
    if (const int64_t left = first->first.first - clock_.MonotonicNanos(); left > 0) {
      changed_.WaitWithTimeout(&mu_, absl::Nanoseconds(left));
      continue;
    }
    absl::AnyInvocable<void()> closure = std::move(first->second);
    running_ = first->first.second;
    times_.erase(running_);
    alarms_.erase(first);
    mu_.Unlock();
    LogExceptions("a timer", [&] { closure(); });
    closure = nullptr;  // destroys its captures without the lock
    mu_.Lock();
    running_ = 0;
    changed_.SignalAll();
  }
  mu_.Unlock();
}

}  // namespace thalweg
