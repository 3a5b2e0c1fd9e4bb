// SPDX-License-Identifier: Apache-2.0
// The callables (compiled signatures) of a session, by the keys of their signatures.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/status.h"

namespace thalweg {

// Thread-safe. No lock is held while a callable is made, so other callables can be found
// and made meanwhile. Only callers that ask for the same one wait.
template <typename T>
class CallableCache {
 public:
  using Result = absl::StatusOr<std::shared_ptr<T>>;

  // Returns the callable of `key`. If there is none, the first caller runs `make` and the
  // others wait for it, or until their `cancellation` is cancelled. Errors are not
  // cached, because they may belong to that caller, such as its deadline: the next caller
  // tries again.
  Result FindOrMake(const std::string& key, Cancellation& cancellation, absl::FunctionRef<Result()> make) {
    ASSIGN_OR_RETURN(std::shared_ptr<T> found, FindOrClaim(key, cancellation));
    if (found != nullptr) return found;
    Result made = make();
    MutexLock lock(&mutex_);
    claimed_.erase(key);
    if (made.ok()) callables_.emplace(key, *made);
    changed_.SignalAll();
    return made;
  }

  void Clear() {
    absl::flat_hash_map<std::string, std::shared_ptr<T>> cleared;  // destroyed after the lock is released
    MutexLock lock(&mutex_);
    callables_.swap(cleared);
  }

 private:
  // nullptr: the caller must make it.
  Result FindOrClaim(const std::string& key, Cancellation& cancellation) {
    {
      MutexLock lock(&mutex_);
      if (const auto it = callables_.find(key); it != callables_.end()) return it->second;
      if (claimed_.insert(key).second) return nullptr;
    }
    const auto wake = cancellation.Register([this](const absl::Status&) {
      MutexLock lock(&mutex_);
      changed_.SignalAll();
    });
    if (!wake.has_value()) return cancellation.status();
    Result result = WaitOrClaim(key, cancellation);
    cancellation.Deregister(*wake);
    return result;
  }
  Result WaitOrClaim(const std::string& key, Cancellation& cancellation) {
    MutexLock lock(&mutex_);
    while (!cancellation.cancelled()) {
      if (const auto it = callables_.find(key); it != callables_.end()) return it->second;
      if (claimed_.insert(key).second) return nullptr;
      changed_.Wait(&mutex_);
    }
    return cancellation.status();
  }

  Mutex mutex_;
  CondVar changed_;  // a callable was made, failed to be, or a wait was cancelled
  absl::flat_hash_map<std::string, std::shared_ptr<T>> callables_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<std::string> claimed_ ABSL_GUARDED_BY(mutex_);  // keys of the callables that are being made
};

}  // namespace thalweg
