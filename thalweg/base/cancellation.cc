// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/cancellation.h"

#include <algorithm>
#include <utility>

#include "thalweg/base/logging.h"

namespace thalweg {

void Cancellation::Cancel(absl::Status reason) {
  CHECK(!reason.ok()) << "a cancellation needs a reason";
  {
    MutexLock lock(&mu_);
    if (cancelled()) return;
    reason_ = std::move(reason);
    cancelled_.store(true, std::memory_order_release);
    canceller_ = std::this_thread::get_id();
  }

  // One at a time, so that a callback can still be deregistered while another
  // runs, even by that other one.
  while (true) {
    Callback callback;
    {
      MutexLock lock(&mu_);
      running_.reset();
      callback_ended_.SignalAll();
      if (callbacks_.empty()) return;
      running_ = callbacks_.back().id;
      callback = std::move(callbacks_.back().callback);
      callbacks_.pop_back();
    }
    callback(reason_);
  }
}

std::optional<Cancellation::CallbackId> Cancellation::Register(Callback callback) {
  MutexLock lock(&mu_);
  if (cancelled()) return std::nullopt;
  const CallbackId id{next_id_++};
  callbacks_.push_back({id, std::move(callback)});
  return id;
}

bool Cancellation::Deregister(CallbackId id) {
  Callback callback;  // destroyed after the lock is released
  MutexLock lock(&mu_);
  callback = Take(id);
  if (callback != nullptr) return true;
  if (canceller_ == std::this_thread::get_id()) return false;
  while (running_ == id) callback_ended_.Wait(&mu_);
  return false;
}

bool Cancellation::TryDeregister(CallbackId id) {
  Callback callback;  // destroyed after the lock is released
  MutexLock lock(&mu_);
  callback = Take(id);
  return callback != nullptr;
}

Cancellation::Callback Cancellation::Take(CallbackId id) {
  const auto it = std::lower_bound(callbacks_.begin(), callbacks_.end(), id,
                                   [](const Entry& entry, CallbackId wanted) { return entry.id < wanted; });
  if (it == callbacks_.end() || it->id != id) return nullptr;
  Callback callback = std::move(it->callback);
  callbacks_.erase(it);
  return callback;
}

}  // namespace thalweg
