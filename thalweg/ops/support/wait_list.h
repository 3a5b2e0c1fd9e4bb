// WaitList: the calls that wait for a resource to change (an accumulator, a
// barrier, a staging area). Nobody waits with a thread: a call is tried when it
// comes and whenever something changed, and ends where it can.
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

// Who waits. What it points to lives until the call has ended.
struct WaitingCaller {
  Cancellation* cancellation = nullptr;  // ends the wait, with CANCELLED
  ThreadPool* pool = nullptr;            // where to go on after it; nullptr: anywhere
};

// Guarded by a lock of its owner, but for Start and End, which the owner calls
// without it.
class WaitList {
 public:
  struct Call;
  using Ended = std::vector<std::shared_ptr<Call>>;
  // Under the lock: true if the call need not wait any more. It may leave an
  // error for the end.
  using Try = absl::AnyInvocable<bool(absl::Status*)>;
  using EndFn = absl::AnyInvocable<void(const absl::Status&)>;
  // Under the lock: tries everything that may get on now.
  using FlushFn = std::function<void(Ended*)>;

  // In order: a call waits for those before it too.
  explicit WaitList(bool in_order) : in_order_(in_order) {}

  // Adds a call and flushes, under `mutex`, with `flush`; again when the call is
  // cancelled while it waits. Ends what can end: this call here, others on their
  // pools. `owner` keeps the list alive. `what`: for the error when it is
  // cancelled, "TakeGrad".
  void Start(std::shared_ptr<void> owner, Mutex* mutex, absl::string_view what, const WaitingCaller& caller,
             Try attempt, EndFn end, FlushFn flush);

  // Tries what waits, until nothing gets on. True if something did.
  bool Flush(Ended* ended);
  // Gives up all, with an error.
  void Fail(const absl::Status& status, Ended* ended);
  int size() const { return static_cast<int>(calls_.size()); }

  // Runs the ends of calls, without a lock.
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
