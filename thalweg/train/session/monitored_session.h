// SPDX-License-Identifier: Apache-2.0
// MonitoredTrainingSession: a session that looks after itself, from the first
// values of variables to the last checkpoint (docs/training.md).
//
//   ASSIGN_OR_RETURN(auto session, MonitoredTrainingSession::Start(graph, {
//       .master = server->target(), .is_chief = is_chief, .checkpoint_dir = "dir", .hooks = {StopAtStep(2000)}}));
//   while (!session.ShouldStop()) {
//     ASSIGN_OR_RETURN(const auto out, session.Run({train_op, loss}, {{x, batch}}));
//   }
//   return session.Close();
//
// Where the graph itself reads the data, its end is OUT_OF_RANGE of Run:
//
//     const auto out = session.Run({train_op, loss});
//     if (absl::IsOutOfRange(out.status())) break;
//     RETURN_IF_ERROR(out.status());
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/client/session.h"
#include "thalweg/graph/graph.h"
#include "thalweg/train/session/hooks.h"
#include "thalweg/train/session/scaffold.h"

namespace thalweg {

struct MonitoredTrainingSessionOptions {
  std::string master;    // the target of a server; "" is this process
  bool is_chief = true;  // in one worker: it initializes, restores, and writes the files
  // Every worker has variables of its own, and initializes them itself, as AllReduce() wants it.
  // The chief still restores and writes the files. The session then sees all tasks of the job, and
  // collectives are led by the first of them, unless `config` says otherwise.
  bool own_variables = false;
  std::string checkpoint_dir;
  HookList hooks;
  HookList chief_only_hooks;
  Scaffold scaffold;

  // What the chief does by itself; 0 is not at all. Steps go before seconds.
  int64_t save_checkpoint_steps = 0;
  double save_checkpoint_secs = 600;
  int64_t save_summaries_steps = 100;
  int64_t log_step_count_steps = 100;
  std::string summary_dir;        // where events go; "": checkpoint_dir
  std::string event_file_suffix;  // of this task's event file

  absl::Duration max_wait = absl::Minutes(10);     // for other tasks to start or to come back
  absl::Duration stop_grace = absl::Seconds(120);  // for threads to end
  // The target is `master`. Without device_filters, only the tasks that the
  // graph names are waited for.
  SessionOptions config;
};

// A handle; movable. Used by one thread. The graph must outlive it.
class MonitoredTrainingSession {
 public:
  // Lets hooks and the scaffold add to the graph, opens a session and returns
  // when every variable has a value.
  static absl::StatusOr<MonitoredTrainingSession> Start(Graph& graph, MonitoredTrainingSessionOptions options = {});
  MonitoredTrainingSession(MonitoredTrainingSession&&) noexcept;
  MonitoredTrainingSession& operator=(MonitoredTrainingSession&&) noexcept;
  // Without Close() first the training counts as failed, and hooks have no End,
  // except after the end of the data: then it closes, and logs what goes wrong.
  ~MonitoredTrainingSession();

  // True once a hook wants no more steps, the data is at its end, or a hook has
  // failed.
  bool ShouldStop() const;

  // One step, with the hooks around it. If a task was lost, the session is made
  // anew, from the last checkpoint if need be, and the step is run again. If the
  // step has run and a task was lost while hooks looked at its results, the
  // session is made anew and the results are returned: a step that was applied
  // is not repeated. CANCELLED if the training was interrupted while it waited
  // for other tasks.
  // OUT_OF_RANGE is the end of the data: then Close() is as after the last step.
  // An error of a hook, and one after which recovery was not possible, is given
  // by every later call.
  absl::StatusOr<std::vector<Tensor>> Run(const std::vector<Fetch>& fetches, const std::vector<Feed>& feeds = {});

  // The session below, for steps without hooks. A lost task ends it.
  Session& session();

  // Ends the training: hooks' End, unless the last step failed, then the
  // session. After an end without errors the job is told that this worker is
  // done: when all are, parameter servers return from Join(). A worker that was
  // interrupted before its last step may be started again, and is not done. A
  // second call does nothing.
  absl::Status Close();

 private:
  class State;
  explicit MonitoredTrainingSession(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace thalweg
