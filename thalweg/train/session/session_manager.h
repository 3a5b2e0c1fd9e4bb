// SPDX-License-Identifier: Apache-2.0
// Opens sessions whose variables are initialized.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/client/session.h"
#include "thalweg/graph/scope.h"
#include "thalweg/train/checkpoints/checkpoint_state.h"
#include "thalweg/train/session/scaffold.h"
#include "thalweg/train/session/wait_backoff.h"

namespace thalweg {

struct SessionManagerOptions {
  SessionOptions session;
  bool is_chief = true;
  std::string checkpoint_dir;  // empty: do not restore
  bool gets_values = false;    // hooks fill the variables: they may be initialized again
  absl::Duration max_wait = absl::Minutes(10);
  Cancellation* cancellation = nullptr;  // ends waits for other tasks; borrowed, may be nullptr
  // How often a worker that waits for the chief checks whether it has missed the signal.
  absl::Duration ask_every = absl::Milliseconds(250);
};

// The chief initializes the variables or restores them from the latest checkpoint. The other
// workers wait until it has. The chief signals them by closing a queue that is placed with the
// first variable, which also works on TensorFlow's parameter servers. A queue can be closed
// only once. If a parameter server other than the queue's was lost, the workers have to poll,
// and notice within a quarter of a second. Not thread-safe.
class SessionManager {
 public:
  // Adds its operations to the graph. REQUIRES: the scaffold is complete.
  SessionManager(const Scope& s, Scaffold scaffold, SessionManagerOptions options);

  // Opens a session and waits for tasks that have not started or have left. `again` is true
  // after a task was lost. In that case variables keep their values if all still have one;
  // otherwise all are restored from the checkpoint. FAILED_PRECONDITION if there is none.
  absl::StatusOr<std::unique_ptr<Session>> Open(bool again);
  // True if the variables have been initialized or restored since the last call.
  bool TakeGaveValues() { return std::exchange(gave_values_, false); }
  // The values of the variables cannot be trusted: Open() initializes or restores them.
  void DistrustValues() { giving_values_ = true; }

 private:
  // Returns what it has to wait for, or "" if the session is open.
  absl::StatusOr<std::string> TryOpen(bool again, const WaitBackoff& backoff, std::unique_ptr<Session>* session);
  absl::Status GiveValues(Session& session, bool again, const std::vector<std::string>& lost);
  // Restores the first of these checkpoints, latest first, that is not damaged.
  absl::Status RestoreFirst(Session& session, const std::vector<std::string>& saved);
  absl::Status RunInit(Session& session);
  // Waits until the chief signals that the variables are initialized, or until the next check.
  absl::Status AwaitChief(Session& session, WaitBackoff& backoff, const std::string& what);

  const Scope scope_;
  const Scaffold scaffold_;
  const SessionManagerOptions options_;
  const ReadyCheck ready_;
  Output signal_, await_signal_;  // null if the session runs in this process
  bool signalled_ = false;        // in this session
  bool gave_values_ = false;
  bool giving_values_ = false;  // initializing or restoring has begun and has not succeeded yet
};

}  // namespace thalweg
