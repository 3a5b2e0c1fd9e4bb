// Tells how old a message is whose sender has a clock of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "thalweg/base/mutex.h"

namespace thalweg {

// Messages carry the time of the sender's monotonic clock. The smallest difference
// to ours that was seen is the offset of the two clocks and the shortest way; a
// message with a larger one has been under way for longer. Clocks of two machines
// may drift apart by kDrift. Thread-safe.
class SenderClock {
 public:
  // How long a message that was sent at `sent_nanos` and came at `now_nanos` was
  // under way, beyond the shortest way.
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
  static constexpr int64_t kDrift = 1000;  // one part in so many

  Mutex mutex_;
  int64_t offset_ ABSL_GUARDED_BY(mutex_) = kUnknown;
  int64_t seen_nanos_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace thalweg
