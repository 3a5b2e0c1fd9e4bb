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

// The server, the hooks and the files of a MonitoredTrainingSession.
struct MonitoredTrainingSessionOptions {
  std::string master;    // target of a server, "grpc://host:port"; "": this process
  bool is_chief = true;  // true in one worker, which initializes, restores and writes the files
  // Every worker has variables of its own and initializes them itself, as AllReduce() needs it.
  // The chief still restores and writes the files. The first task of the job leads collectives, unless
  // `config` says otherwise.
  bool own_variables = false;
  std::string checkpoint_dir;  // folder of the checkpoints; "": none are written or restored
  HookList hooks;              // hooks of this worker
  HookList chief_only_hooks;   // more hooks, used only by the chief
  Scaffold scaffold;           // how variables are initialized, restored and saved

  // Intervals of the chief's own hooks; 0 turns one off. Steps take precedence over seconds.
  int64_t save_checkpoint_steps = 0;   // global steps between two checkpoints
  double save_checkpoint_secs = 600;   // seconds between two checkpoints
  int64_t save_summaries_steps = 100;  // global steps between two summaries
  int64_t log_step_count_steps = 100;  // global steps between two log lines with steps per second
  std::string summary_dir;             // folder of the event files; "": checkpoint_dir
  std::string event_file_suffix;       // appended to the name of this task's event file

  absl::Duration max_wait = absl::Minutes(10);     // how long to wait for other tasks to start or come back
  absl::Duration stop_grace = absl::Seconds(120);  // how long Close() waits for threads to end
  // Options of the session; its target is `master`. Without device_filters the session
  // waits only for the tasks that the graph names.
  SessionOptions config;
};

// A session that runs hooks around its steps, writes checkpoints and recovers from lost
// tasks. Movable. Used by one thread. The graph must outlive it.
class MonitoredTrainingSession {
 public:
  // Lets hooks and the scaffold add to the graph, opens a session and returns
  // when every variable has a value.
  static absl::StatusOr<MonitoredTrainingSession> Start(Graph& graph,
                                                        const MonitoredTrainingSessionOptions& options = {});
  MonitoredTrainingSession(MonitoredTrainingSession&&) noexcept;
  MonitoredTrainingSession& operator=(MonitoredTrainingSession&&) noexcept;
  // Without Close() before it the training counts as failed and Hook::End is not called.
  // After the end of the data, however, the destructor calls Close() and logs its error.
  ~MonitoredTrainingSession();

  // True once a hook has requested a stop or failed, or the data has ended.
  bool ShouldStop() const;

  // Runs one step, with the hooks around it.
  //
  // If a task is lost, the session is created again, from the last checkpoint if
  // variables were lost, and the step is run again. If the task is lost after the step,
  // while hooks handle its results, the results are returned: a step that was applied is
  // not repeated.
  //
  // OUT_OF_RANGE is the end of the data; Close() then ends the training normally.
  // CANCELLED if the training was interrupted while it waited for other tasks. After an
  // error of a hook, or one from which the session could not recover, every later call
  // returns that error.
  absl::StatusOr<std::vector<Tensor>> Run(const std::vector<Fetch>& fetches, const std::vector<Feed>& feeds = {});

  // The underlying session, for steps without hooks. It ends when a task is lost.
  Session& session();

  // Ends the training: calls Hook::End, unless the last step failed, and closes the
  // session. If there was no error, it tells the parameter servers that this worker is
  // done; when all workers are, their Join() returns. A worker that was interrupted
  // before its last step is not done: it may be started again. A second call does
  // nothing.
  absl::Status Close();

 private:
  class State;
  explicit MonitoredTrainingSession(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace thalweg
