// SPDX-License-Identifier: Apache-2.0
// The calls that wait for a resource to change (an accumulator, a barrier, a staging area). Waiting calls do not
// occupy a thread: a call is tried when it arrives and whenever something has changed, until it succeeds.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread_pool.h"

namespace thalweg {

// The caller. What it points to lives until the call has ended.
struct WaitingCaller {
  Cancellation* cancellation = nullptr;  // ends the wait with CANCELLED
  ThreadPool* pool = nullptr;            // runs the end of the call after a wait; nullptr: any thread
};

// Guarded by a lock of its owner, except Start() and End(), which the owner calls without the lock.
class WaitList {
 public:
  struct Call;
  using Ended = std::vector<std::shared_ptr<Call>>;
  // Called under the lock. Returns true if the call is complete, possibly with an error.
  using Try = absl::AnyInvocable<bool(absl::Status*)>;
  using EndFn = absl::AnyInvocable<void(const absl::Status&)>;
  // Called under the lock. Tries everything that may complete now.
  using FlushFn = std::function<void(Ended*)>;

  // With `in_order`, a call also waits for the calls before it.
  explicit WaitList(bool in_order) : in_order_(in_order) {}

  // Adds a call and runs `flush` under `mutex`, and again if the call is cancelled while it waits. Then ends the
  // completed calls: this call on this thread, others on their pools. `owner` keeps the list alive. `what`
  // ("TakeGrad") names the call in the error of a cancellation.
  void Start(std::shared_ptr<void> owner, Mutex* mutex, absl::string_view what, const WaitingCaller& caller,
             Try attempt, EndFn end, FlushFn flush);

  // Tries the waiting calls until none makes progress. Returns true if any completed.
  bool Flush(Ended* ended);
  // Completes all calls with an error.
  void Fail(const absl::Status& status, Ended* ended);
  int size() const { return static_cast<int>(calls_.size()); }

  // Runs the ends of completed calls. REQUIRES: the lock is not held.
  static void End(Ended ended, const Call* mine = nullptr);

 private:
  const bool in_order_;
  std::list<std::shared_ptr<Call>> calls_;
};

struct WaitList::Call {
  WaitingCaller caller;
  Try attempt;
  EndFn end;
  bool waits = true;
  absl::Status status;
  std::optional<Cancellation::CallbackId> registration;
};

}  // namespace thalweg
