// SPDX-License-Identifier: Apache-2.0
// Cancellation of steps and calls, with a reason.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "thalweg/base/mutex.h"

namespace thalweg {

// A one-way switch from running to cancelled, with the reason. Running code
// polls cancelled(); code that waits registers a callback that ends the wait:
//
//   const auto id = cancellation.Register([&](const absl::Status& why) { queue.Close(why); });
//   if (!id) return cancellation.status();
//   ... wait ...
//   if (!cancellation.Deregister(*id)) return cancellation.status();
//
// Owned by the step. Thread-safe. It must outlive every call of its methods, including Cancel().
class Cancellation {
 public:
  // Cancel() runs the registered callbacks.
  using Callback = absl::AnyInvocable<void(const absl::Status& reason)>;
  // Names a registered callback.
  enum class CallbackId : uint64_t {};

  Cancellation() = default;
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  // Cancels and runs every registered callback once, on this thread, in no
  // particular order and with no lock held. Does nothing if already cancelled: the first reason stays.
  // REQUIRES: !reason.ok()
  void Cancel(absl::Status reason);

  // One atomic load, for hot paths.
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  // OK while running, then the reason.
  absl::Status status() const { return cancelled() ? reason_ : absl::OkStatus(); }

  // Keeps `callback` for Cancel(). nullopt if already cancelled: then it is
  // neither kept nor run.
  [[nodiscard]] std::optional<CallbackId> Register(Callback callback);

  // True: the callback has not run and never will. False: it has run. Waits
  // for it to end if it is running on another thread, so what it uses may be
  // destroyed afterwards; called from inside the callback it does not wait.
  bool Deregister(CallbackId id);

  // As Deregister() but never waits: on false the callback may still be running.
  bool TryDeregister(CallbackId id);

 private:
  struct Entry {
    CallbackId id;
    Callback callback;
  };

  // Removes the callback `id` from the list and returns it; empty if it is not there.
  Callback Take(CallbackId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Written once, before cancelled_ is set, and read only after it was seen set.
  absl::Status reason_;
  std::atomic<bool> cancelled_{false};

  Mutex mu_;
  CondVar callback_ended_;
  std::vector<Entry> callbacks_ ABSL_GUARDED_BY(mu_);  // in ascending order of ids
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<CallbackId> running_ ABSL_GUARDED_BY(mu_);  // the callback that Cancel() is in
  std::thread::id canceller_ ABSL_GUARDED_BY(mu_);          // the thread that runs callbacks
};

}  // namespace thalweg
