// SPDX-License-Identifier: Apache-2.0
// Locks with absl::Mutex's interface and clang's thread-safety annotations, based on pthread mutexes.
// absl::Mutex itself comes from a library that is not instrumented for ThreadSanitizer, which therefore
// does not see its locks. The same holds for absl::Notification and the like.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace thalweg {

// Excludes other threads between Lock() and Unlock(). Not recursive.
class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  // Informs the static analysis that the mutex is held, for code in callbacks. Does nothing at run time.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}
  [[nodiscard]] bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a mutex for the length of a scope.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) : mu_(mu) { mu_->Lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mu_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mu_;
};

// Waits for a change of data that a mutex guards. Spurious wakeups are possible:
//
//   while (queue_.empty()) changed_.Wait(&mu_);
//
// A futex, and not std::condition_variable: up to version 2.40, glibc's condition variables can lose a wakeup
// (https://sourceware.org/bugzilla/show_bug.cgi?id=25847).
class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void Wait(Mutex* mu) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { WaitNanos(mu, -1); }

  // Return true on timeout.
  bool WaitWithTimeout(Mutex* mu, absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  bool WaitWithDeadline(Mutex* mu, absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return WaitWithTimeout(mu, deadline - absl::Now());
  }

  // Wake one or all of the threads that wait. Call them after the change, with or without the mutex.
  void Signal() { Wake(1); }
  void SignalAll();

 private:
  // Negative `nanos` mean no limit. False if the time is over.
  bool WaitNanos(Mutex* mu, int64_t nanos);
  void Wake(int threads);

  // A waiter reads the number under the mutex, releases the mutex, and sleeps while the number stays the same. A signal
  // that comes before it sleeps changes the number, so that it does not sleep at all.
  std::atomic<uint32_t> signals_{0};
  std::atomic<int> waiters_{0};  // written under the mutex
};

}  // namespace thalweg
