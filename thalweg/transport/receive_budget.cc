// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/receive_budget.h"

#include <vector>

namespace thalweg {

std::optional<ReceiveBudget::Lease> ReceiveBudget::Take(uint64_t bytes, absl::AnyInvocable<void(Lease)> granted) {
  MutexLock lock(&mutex_);
  if (waiters_.empty() && Fits(bytes)) {
    taken_ += bytes;
    return Lease(shared_from_this(), bytes);
  }
  waiters_.push_back({bytes, std::move(granted)});
  return std::nullopt;
}

void ReceiveBudget::Return(uint64_t bytes) {
  std::vector<Waiter> next;
  {
    MutexLock lock(&mutex_);
    taken_ -= bytes;
    while (!waiters_.empty() && Fits(waiters_.front().bytes)) {
      taken_ += waiters_.front().bytes;
      next.push_back(std::move(waiters_.front()));
      waiters_.pop_front();
    }
  }
  // A waiter that is gone drops its lease, which comes back here.
  for (Waiter& waiter : next) waiter.granted(Lease(shared_from_this(), waiter.bytes));
}

uint64_t ReceiveBudget::taken() const {
  MutexLock lock(&mutex_);
  return taken_;
}

}  // namespace thalweg
