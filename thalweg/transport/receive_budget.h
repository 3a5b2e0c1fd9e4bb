// SPDX-License-Identifier: Apache-2.0
// Limits the memory that messages take while they are being received.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "thalweg/base/mutex.h"

namespace thalweg {

// All links of a server share a budget. A link that cannot get the memory for its next message stops
// reading, so that TCP's flow control stops the sender, and goes on when other messages are complete.
// A message takes its whole size at once, so messages never wait for each other in a circle.
// Thread-safe.
class ReceiveBudget : public std::enable_shared_from_this<ReceiveBudget> {
 public:
  // Gives the bytes back when it is destroyed.
  class Lease {
   public:
    Lease() = default;
    Lease(std::shared_ptr<ReceiveBudget> budget, uint64_t bytes) : budget_(std::move(budget)), bytes_(bytes) {}
    Lease(Lease&& other) noexcept = default;
    Lease& operator=(Lease&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Lease() {
      if (budget_ != nullptr) budget_->Return(bytes_);
    }

   private:
    std::shared_ptr<ReceiveBudget> budget_;
    uint64_t bytes_ = 0;
  };

  explicit ReceiveBudget(uint64_t limit) : limit_(limit) {}

  // nullopt if the budget is used up: `granted` then runs later, on a thread that gives bytes back, unless Cancel() is
  // called with `ticket` before. The first to wait is the first to get. A request of more than the limit is granted
  // when nothing else is taken.
  std::optional<Lease> Take(uint64_t bytes, absl::AnyInvocable<void(Lease)> granted, uint64_t* ticket);
  void Cancel(uint64_t ticket);

  uint64_t taken() const;
  size_t waiting() const;

 private:
  struct Waiter {
    uint64_t ticket = 0;
    uint64_t bytes = 0;
    absl::AnyInvocable<void(Lease)> granted;
  };
  void Return(uint64_t bytes);
  void Grant() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Fits(uint64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return taken_ == 0 || (taken_ <= limit_ && bytes <= limit_ - taken_);
  }

  const uint64_t limit_;
  mutable Mutex mutex_;
  uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_ticket_ ABSL_GUARDED_BY(mutex_) = 1;
  bool granting_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace thalweg
