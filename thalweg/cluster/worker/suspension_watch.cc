// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/worker/suspension_watch.h"

#include <algorithm>
#include <utility>

#include "thalweg/base/clock.h"

namespace thalweg {

SuspensionWatch::SuspensionWatch(absl::Duration limit, std::function<void(absl::Duration)> then)
    : limit_nanos_(absl::ToInt64Nanoseconds(limit)), then_(std::move(then)), seen_nanos_(NowNanos()) {
  thread_ = std::make_unique<Thread>("suspensions", [this] { Run(); });
}

SuspensionWatch::~SuspensionWatch() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.SignalAll();
  }
  thread_.reset();
}

void SuspensionWatch::Check() {
  if (NowNanos() - seen_nanos_.load(std::memory_order_acquire) <= limit_nanos_) [[likely]]
    return;
  MutexLock lock(&gap_mutex_);
  const int64_t now = NowNanos();
  const int64_t gap = now - seen_nanos_.load(std::memory_order_acquire);
  if (gap <= limit_nanos_) return;
  then_(absl::Nanoseconds(gap));
  seen_nanos_.store(NowNanos(), std::memory_order_release);
}

void SuspensionWatch::Run() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      if (!closing_)
        changed_.WaitWithTimeout(&mutex_, std::min(absl::Milliseconds(100), absl::Nanoseconds(limit_nanos_ / 4)));
      if (closing_) return;
    }
    Check();
    seen_nanos_.store(NowNanos(), std::memory_order_release);
  }
}

}  // namespace thalweg
