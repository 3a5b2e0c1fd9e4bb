// Opens sessions that are ready: whose variables have values.
#pragma once

#include <memory>
#include <string>

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
  std::string checkpoint_dir;  // empty: nothing to restore from
  absl::Duration max_wait = absl::Minutes(10);
  Cancellation* cancellation = nullptr;  // ends waits for other tasks; borrowed, may be none
  // A worker that waits for the chief asks so often whether it has missed its
  // signal.
  absl::Duration ask_every = absl::Milliseconds(250);
};

// The chief initializes variables, or restores them from the latest checkpoint;
// others wait until it has. It tells them by closing a queue, which is beside the
// first variable: what is known there TensorFlow's parameter servers know, too. A
// queue can be closed only once; when only another parameter server was lost,
// they have to ask, and see it within a quarter of a second. Not thread-safe.
class SessionManager {
 public:
  // Adds its operations to the graph. REQUIRES: the scaffold is complete.
  SessionManager(const Scope& s, Scaffold scaffold, SessionManagerOptions options);

  // `again`: after a task was lost. Then variables that still have their values
  // keep them; if some do not, all come from the checkpoint. FAILED_PRECONDITION
  // if there is none to go back to. Tasks that have not started or have left are
  // waited for.
  absl::StatusOr<std::unique_ptr<Session>> Open(bool again);

 private:
  // A text if it has to wait, of what for.
  absl::StatusOr<std::string> TryOpen(bool again, const WaitBackoff& patience, std::unique_ptr<Session>* session);
  absl::Status GiveValues(Session& session, bool again, const std::vector<std::string>& lost);
  // The first of these, latest first, whose data is not damaged.
  absl::Status RestoreFirst(Session& session, const std::vector<std::string>& saved);
  absl::Status RunInit(Session& session);
  // Pauses, until the chief says that variables have values or it is time to ask.
  absl::Status AwaitChief(Session& session, WaitBackoff& patience, const std::string& what);

  const Scope scope_;
  const Scaffold scaffold_;
  const SessionManagerOptions options_;
  const ReadyCheck ready_;
  Output signal_, await_signal_;  // none: in this process
  bool signalled_ = false;        // in this session
};

}  // namespace thalweg
