// A gate in front of a server's methods: it knows how many calls that start work
// are under way, and can be closed for new ones.
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
  // The same methods, behind this gate. Those that start sessions and steps are
  // counted; the others, which steps under way need, always pass.
  std::vector<RpcMethod> Guard(std::vector<RpcMethod> methods);

  // From now on calls that start sessions are answered with `why`; those that
  // start steps still pass.
  void CloseForSessions(const absl::Status& why);
  // Until no step was started for `quiet`, though not longer than `timeout`.
  void WaitUntilQuiet(absl::Duration quiet, absl::Duration timeout) const;
  // Steps are refused, too. Waits for those under way; false if the time was over
  // first.
  bool Close(const absl::Status& why, absl::Duration timeout);

  // When a call came; now, if one that was counted is under way.
  absl::Time last_call() const;

 private:
  class CountedCall;
  void Leave();

  std::atomic<int64_t> last_call_nanos_{0};  // as absl::ToUnixNanos
  std::atomic<int64_t> last_work_nanos_{0};
  std::atomic<int> active_{0};
  std::atomic<bool> closed_for_sessions_{false};
  std::atomic<bool> closed_{false};
  Mutex mutex_;
  CondVar changed_;
  absl::Status why_;  // written once, before closed_for_sessions_
};

}  // namespace thalweg
