// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/wait_list.h"

#include <string>
#include <utility>

#include "thalweg/base/exception_boundary.h"
#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/status.h"

namespace thalweg {

// The callback for cancellation takes the owner's lock and is never run under
// that of the Cancellation, so registering under the lock is safe. It has to
// be: once the lock is free the call may end, and with it the step.
void WaitList::Start(std::shared_ptr<void> owner, Mutex* mutex, absl::string_view what, const WaitingCaller& caller,
                     Try attempt, EndFn end, FlushFn flush) {
  auto call = std::make_shared<Call>();
  call->caller = caller;
  call->attempt = std::move(attempt);
  call->end = std::move(end);
  const std::string text = absl::StrCat(what, " operation was cancelled");
  Ended ended;
  {
    MutexLock lock(mutex);
    calls_.push_back(call);
    flush(&ended);
    if (call->waits && caller.cancellation != nullptr) {
      call->registration = caller.cancellation->Register([this, owner, mutex, call, text, flush](const absl::Status&) {
        Ended ended{call};
        {
          MutexLock lock(mutex);
          if (!call->waits) return;
          call->waits = false;
          call->status = Cancelled(text);
          call->registration.reset();
          calls_.remove(call);
          flush(&ended);  // those behind it may have waited only for it
        }
        End(std::move(ended), call.get());
      });
      if (!call->registration.has_value()) {
        call->waits = false;
        call->status = Cancelled(text);
        calls_.remove(call);
        ended.push_back(call);
      }
    }
  }
  PassFailPoint("worker.wait");
  End(std::move(ended), call.get());
}

bool WaitList::Flush(Ended* ended) {
  bool changed = false;
  for (auto it = calls_.begin(); it != calls_.end();) {
    Call& call = **it;
    bool complete = false;
    // The attempt of another call must not fail this one.
    if (const absl::Status thrown = CatchExceptions([&] { complete = call.attempt(&call.status); }); !thrown.ok()) {
      call.status = thrown;
      complete = true;
    }
    if (!complete) {
      if (in_order_) return changed;
      ++it;
      continue;
    }
    changed = true;
    call.waits = false;
    ended->push_back(std::move(*it));
    it = calls_.erase(it);
  }
  return changed;
}

void WaitList::Fail(const absl::Status& status, Ended* ended) {
  for (std::shared_ptr<Call>& call : calls_) {
    call->waits = false;
    call->status = status;
    ended->push_back(std::move(call));
  }
  calls_.clear();
}

void WaitList::End(Ended ended, const Call* mine) {
  std::shared_ptr<Call> last;
  const auto end = [](const std::shared_ptr<Call>& call) {
    EndFn end = std::move(call->end);
    call->attempt = nullptr;
    end(call->status);
  };
  for (std::shared_ptr<Call>& call : ended) {
    if (call->registration.has_value()) call->caller.cancellation->TryDeregister(*call->registration);
    if (call.get() == mine) {
      last = std::move(call);
    } else if (ThreadPool* const pool = call->caller.pool; pool != nullptr) {
      pool->Schedule([end, call = std::move(call)] { end(call); });
    } else {
      end(call);
    }
  }
  if (last != nullptr) end(last);
}

}  // namespace thalweg
