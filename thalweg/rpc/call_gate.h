// SPDX-License-Identifier: Apache-2.0
// A gate in front of a server's methods. It counts the running calls that start work, and
// can be closed for new ones, so that a server can drain.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "thalweg/base/mutex.h"
#include "thalweg/rpc/rpc_server.h"

namespace thalweg {

// Thread-safe. Outlives the server of its methods.
class CallGate {
 public:
  // Wraps the methods. Calls that start sessions and steps are counted. All others always
  // pass, because running steps need them.
  std::vector<RpcMethod> Guard(std::vector<RpcMethod> methods);
  // The same for a call from this process that starts a step. If it is admitted, call
  // LeaveStep() when it has ended.
  absl::Status EnterStep();
  void LeaveStep() { Leave(); }

  // From now on, calls that start sessions fail with `why`. Calls that start steps still
  // pass.
  void CloseForSessions(const absl::Status& why);
  // Waits until no step has been started for `quiet`, at most for `timeout`.
  void WaitUntilQuiet(absl::Duration quiet, absl::Duration timeout) const;
  // From now on, calls that start steps fail, too. Waits for the running ones; returns
  // false on timeout.
  bool Close(const absl::Status& why, absl::Duration timeout);

  // The time of the last call, as absl::FromUnixNanos(NowNanos()); now, if a counted call is running.
  absl::Time last_call() const;

 private:
  class CountedCall;
  void Leave();

  std::atomic<int64_t> last_call_nanos_{0};  // as NowNanos()
  std::atomic<int64_t> last_work_nanos_{0};
  std::atomic<int> active_{0};
  std::atomic<bool> closed_for_sessions_{false};
  std::atomic<bool> closed_{false};
  Mutex mutex_;
  CondVar changed_;
  absl::Status why_;  // written once, before closed_for_sessions_
};

}  // namespace thalweg
