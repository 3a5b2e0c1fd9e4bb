// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/receive_budget.h"

#include <algorithm>

namespace thalweg {

std::optional<ReceiveBudget::Lease> ReceiveBudget::Take(uint64_t bytes, absl::AnyInvocable<void(Lease)> granted,
                                                        uint64_t* ticket) {
  MutexLock lock(&mutex_);
  if (waiters_.empty() && Fits(bytes)) {
    taken_ += bytes;
    return Lease(shared_from_this(), bytes);
  }
  *ticket = next_ticket_++;
  waiters_.push_back({*ticket, bytes, std::move(granted)});
  return std::nullopt;
}

void ReceiveBudget::Cancel(uint64_t ticket) {
  Waiter cancelled;  // destroyed without the lock
  MutexLock lock(&mutex_);
  const auto it = std::lower_bound(waiters_.begin(), waiters_.end(), ticket,
                                   [](const Waiter& waiter, uint64_t value) { return waiter.ticket < value; });
  if (it == waiters_.end() || it->ticket != ticket) return;
  cancelled = std::move(*it);
  waiters_.erase(it);
  Grant();  // the next one may need less
}

void ReceiveBudget::Return(uint64_t bytes) {
  MutexLock lock(&mutex_);
  taken_ -= bytes;
  Grant();
}

// One thread grants at a time, in a loop: a waiter that is gone drops its lease, which comes back to Return().
void ReceiveBudget::Grant() {
  if (granting_) return;
  granting_ = true;
  while (!waiters_.empty() && Fits(waiters_.front().bytes)) {
    Waiter next = std::move(waiters_.front());
    waiters_.pop_front();
    taken_ += next.bytes;
    mutex_.Unlock();
    next.granted(Lease(shared_from_this(), next.bytes));
    next.granted = nullptr;
    mutex_.Lock();
  }
  granting_ = false;
}

uint64_t ReceiveBudget::taken() const {
  MutexLock lock(&mutex_);
  return taken_;
}

size_t ReceiveBudget::waiting() const {
  MutexLock lock(&mutex_);
  return waiters_.size();
}

}  // namespace thalweg
