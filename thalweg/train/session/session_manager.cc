// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/session/session_manager.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "thalweg/base/status.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/train/layers/variable.h"
#include "thalweg/train/session/abbreviated_list.h"

namespace thalweg {
SessionManager::SessionManager(const Scope& s, Scaffold scaffold, SessionManagerOptions options)
    : scope_(s), scaffold_(std::move(scaffold)), options_(std::move(options)), ready_(s) {
  const std::vector<Var> variables = GlobalVariables(s.graph());
  if (options_.session.target.empty() || variables.empty()) return;
  const Scope own = s.InScope("").WithoutControlDependencies().SubScope("chief_ready").ColocateWith(variables[0].ref);
  const Output queue = FIFOQueue(own, {kBool}, {Shape()}, {.capacity = 1, .shared_name = "thalweg_chief_ready"});
  signal_ = QueueClose(own, queue);
  const std::vector<Output> taken = QueueDequeue(own, queue, {kBool});
  if (!taken.empty()) await_signal_ = taken[0];
}

absl::StatusOr<std::unique_ptr<Session>> SessionManager::Open(bool again) {
  WaitBackoff backoff(options_.max_wait, options_.cancellation);
  std::unique_ptr<Session> session;
  while (true) {
    const absl::StatusOr<std::string> waits_for = TryOpen(again, backoff, &session);
    if (waits_for.ok()) {
      if (waits_for->empty()) return session;
      RETURN_IF_ERROR(AwaitChief(*session, backoff, *waits_for));
      continue;
    }
    session = nullptr;
    const absl::Status& error = waits_for.status();
    if (absl::IsDeadlineExceeded(error) && backoff.left() <= absl::ZeroDuration()) {
      return DeadlineExceeded("no session on ", options_.session.target, " within ",
                              absl::FormatDuration(options_.max_wait),
                              ": not all of its tasks have started: ", error.message());
    }
    if (options_.session.target.empty() || !IsTaskLost(error)) return error;
    RETURN_IF_ERROR(backoff.Pause(absl::StrCat("for a task that has left: ", error.message())));
  }
}

absl::StatusOr<std::string> SessionManager::TryOpen(bool again, const WaitBackoff& backoff,
                                                    std::unique_ptr<Session>* session) {
  if (*session == nullptr) {
    SessionOptions session_options = options_.session;
    session_options.open_timeout = std::min(session_options.open_timeout, backoff.left());
    session_options.cancellation = options_.cancellation;
    ASSIGN_OR_RETURN(*session, Session::Create(scope_.graph(), session_options));
    signalled_ = false;
  }
  std::vector<std::string> missing;
  if (!options_.is_chief || again) {
    ASSIGN_OR_RETURN(missing, ready_.Uninitialized(**session));
  }
  // A restore that failed may have given values to some of the variables: nothing is missing then, but the others
  // have values of another moment.
  if (options_.is_chief && (!again || !missing.empty() || giving_values_)) {
    giving_values_ = gave_values_ = true;
    RETURN_IF_ERROR(GiveValues(**session, again, missing));
    giving_values_ = false;
    ASSIGN_OR_RETURN(missing, ready_.Uninitialized(**session));
    if (!missing.empty()) {
      return FailedPrecondition("variables without a value after initialization: ", AbbreviatedList(missing));
    }
    if (signal_) (*session)->Run({signal_}).status().IgnoreError();  // fails if it was given before
  }
  if (!missing.empty()) {
    return absl::StrCat("for the chief to give values to the variables: ", AbbreviatedList(missing), " have none yet");
  }
  if (scaffold_.local_init_op) RETURN_IF_ERROR((*session)->Run({scaffold_.local_init_op}).status());
  return std::string();
}

absl::Status SessionManager::AwaitChief(Session& session, WaitBackoff& backoff, const std::string& what) {
  if (await_signal_ && !signalled_) {
    const absl::Duration timeout = std::min(options_.ask_every, std::max(backoff.left(), absl::Milliseconds(1)));
    const absl::Status status = session.Run({await_signal_}, {}, {.timeout = timeout}).status();
    signalled_ = absl::IsOutOfRange(status);
    if (signalled_) return absl::OkStatus();
  }
  return backoff.Pause(what);
}

absl::Status SessionManager::GiveValues(Session& session, bool again, const std::vector<std::string>& lost) {
  if (scaffold_.saver != nullptr && !options_.checkpoint_dir.empty()) {
    const absl::StatusOr<std::vector<std::string>> saved = UsableCheckpoints(options_.checkpoint_dir);
    if (saved.ok()) return RestoreFirst(session, *saved);
    if (!absl::IsNotFound(saved.status())) return saved.status();
    if (!lost.empty())
      LOG(WARNING) << "Initializing all variables again: " << AbbreviatedList(lost)
                   << " were lost before the first checkpoint";
    return RunInit(session);
  }
  if (again && !lost.empty() && !options_.gets_values) {
    return FailedPrecondition("variables were lost with the task that held them: ", AbbreviatedList(lost),
                              "; they cannot be restored, because checkpoint_dir is not set");
  }
  return RunInit(session);
}

absl::Status SessionManager::RestoreFirst(Session& session, const std::vector<std::string>& saved) {
  absl::Status latest;
  for (const std::string& prefix : saved) {
    LOG(INFO) << "Restoring " << prefix;
    const absl::Status restored = scaffold_.saver->Restore(session, prefix);
    if (!absl::IsDataLoss(restored)) return restored;
    LOG(WARNING) << "Checkpoint " << prefix << " is damaged, trying the one before it: " << restored;
    latest.Update(restored);
  }
  return Append(latest,
                absl::StrCat("; none of the ", saved.size(), " checkpoints in ", options_.checkpoint_dir, " is whole"));
}

absl::Status SessionManager::RunInit(Session& session) {
  if (scaffold_.init_op) {
    RETURN_IF_ERROR(session.Run({scaffold_.init_op}, scaffold_.init_feeds, {.one_moment = true}).status());
  }
  return scaffold_.init_fn ? scaffold_.init_fn(session) : absl::OkStatus();
}

}  // namespace thalweg
