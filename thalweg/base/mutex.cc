// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/mutex.h"

#include <algorithm>
#include <climits>

#include "thalweg/base/futex.h"

namespace thalweg {

bool CondVar::WaitWithTimeout(Mutex* mu, absl::Duration timeout) {
  if (timeout == absl::InfiniteDuration()) {
    Wait(mu);
    return false;
  }
  return !WaitNanos(mu, std::max<int64_t>(absl::ToInt64Nanoseconds(timeout), 0));
}

bool CondVar::WaitNanos(Mutex* mu, int64_t nanos) {
  const uint32_t seen = signals_.load(std::memory_order_relaxed);
  waiters_.fetch_add(1, std::memory_order_relaxed);
  mu->mutex_.unlock();
  const bool in_time = FutexWait(signals_, seen, nanos);
  mu->mutex_.lock();
  waiters_.fetch_sub(1, std::memory_order_relaxed);
  return in_time;
}

void CondVar::SignalAll() { Wake(INT_MAX); }

// The caller has changed the data under the mutex, after the waiters that it must wake had counted themselves there.
void CondVar::Wake(int threads) {
  if (waiters_.load(std::memory_order_relaxed) == 0) return;
  signals_.fetch_add(1, std::memory_order_relaxed);
  FutexWake(signals_, threads);
}

}  // namespace thalweg
