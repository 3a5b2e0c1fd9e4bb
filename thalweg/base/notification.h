// SPDX-License-Identifier: Apache-2.0
// Waiting for one event, or for a given number of events.
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "thalweg/base/mutex.h"

namespace thalweg {

// An event that happens once. Thread-safe. A waiter may destroy it as soon as its wait
// has returned.
class Notification {
 public:
  // REQUIRES: called once.
  void Notify() {
    MutexLock lock(&mu_);
    notified_ = true;
    changed_.SignalAll();
  }

  bool HasBeenNotified() const {
    MutexLock lock(&mu_);
    return notified_;
  }

  void WaitForNotification() const {
    MutexLock lock(&mu_);
    while (!notified_) changed_.Wait(&mu_);
  }

  // Returns false on timeout.
  [[nodiscard]] bool WaitForNotificationWithTimeout(absl::Duration timeout) const {
    const absl::Time deadline = absl::Now() + timeout;
    MutexLock lock(&mu_);
    while (!notified_) {
      if (changed_.WaitWithDeadline(&mu_, deadline)) return notified_;
    }
    return true;
  }

 private:
  mutable Mutex mu_;
  mutable CondVar changed_;
  bool notified_ ABSL_GUARDED_BY(mu_) = false;
};

// Waits for `count` events. Thread-safe. The waiter may destroy it as soon as its wait
// has returned.
class BlockingCounter {
 public:
  explicit BlockingCounter(int count) : count_(count) {}

  // REQUIRES: called at most `count` times.
  void DecrementCount() {
    MutexLock lock(&mu_);
    if (--count_ == 0) changed_.SignalAll();
  }

  void Wait() {
    MutexLock lock(&mu_);
    while (count_ > 0) changed_.Wait(&mu_);
  }

 private:
  Mutex mu_;
  CondVar changed_;
  int count_ ABSL_GUARDED_BY(mu_);
};

}  // namespace thalweg
