// SPDX-License-Identifier: Apache-2.0
// Estimates how long a message was in transit, although sender and receiver have
// different clocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "thalweg/base/mutex.h"

namespace thalweg {

// Messages carry the time of the sender's monotonic clock. The smallest difference to our
// clock seen so far is the offset of the clocks plus the shortest transit time. A message
// with a larger difference has been in transit for longer. The clocks may drift apart by
// one part in kDrift. Thread-safe.
class SenderClock {
 public:
  // How much longer than the shortest transit time a message took that was sent at
  // `sent_nanos` and arrived at `now_nanos`.
  absl::Duration Age(int64_t sent_nanos, int64_t now_nanos) {
    MutexLock lock(&mutex_);
    const int64_t difference = now_nanos - sent_nanos;
    if (offset_ != kUnknown) offset_ += (now_nanos - seen_nanos_) / kDrift;
    seen_nanos_ = now_nanos;
    offset_ = std::min(offset_, difference);
    return absl::Nanoseconds(difference - offset_);
  }

 private:
  static constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kDrift = 1000;

  Mutex mutex_;
  int64_t offset_ ABSL_GUARDED_BY(mutex_) = kUnknown;
  int64_t seen_nanos_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace thalweg
