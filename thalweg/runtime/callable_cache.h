// The callables of a session, by the keys of their signatures. Each is made once.
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

// Thread-safe. No lock is held while a callable is made: others can be found and
// made meanwhile. Only those who ask for the same one wait for it.
template <typename T>
class CallableCache {
 public:
  using Result = absl::StatusOr<std::shared_ptr<T>>;

  // The callable of `key`. If there is none, the first caller runs `make` and the
  // others wait, until `cancellation` ends their wait. An error is not kept, since
  // it may be the caller's own, as its deadline is: the next caller tries again.
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
    absl::flat_hash_map<std::string, std::shared_ptr<T>> cleared;  // destroyed after the lock is gone
    MutexLock lock(&mutex_);
    callables_.swap(cleared);
  }

 private:
  // nullptr: the caller has to make it.
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
  absl::flat_hash_set<std::string> claimed_ ABSL_GUARDED_BY(mutex_);  // somebody makes them now
};

}  // namespace thalweg
