// SPDX-License-Identifier: Apache-2.0
// Scaffold: what a session needs of a graph before the first step.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/client/session.h"
#include "thalweg/graph/scope.h"
#include "thalweg/train/checkpoints/saver.h"
#include "thalweg/train/session/queue_runner.h"

namespace thalweg {

// How a training session initializes, restores and saves a graph. Fields that are empty
// get their default from the graph.
struct Scaffold {
  Output init_op;                // initializes all variables; run by the chief
  std::vector<Feed> init_feeds;  // feeds of init_op
  // Called by the chief after init_op, for example for a warm start from another checkpoint.
  std::function<absl::Status(Session&)> init_fn;
  // Run by every worker in every session: initializes local variables and other state
  // that is not shared.
  Output local_init_op;
  Output summary_op;                       // merges all summaries
  std::shared_ptr<Saver> saver;            // saves and restores the variables
  std::vector<QueueRunner> queue_runners;  // run as long as the session
};

// Checks which variables of a graph are not initialized. Its operations are added once; a
// check is one step that fetches one small tensor from each task.
class ReadyCheck {
 public:
  // Adds the operations.
  explicit ReadyCheck(const Scope& s);
  // The names of the variables that have no value in the session.
  absl::StatusOr<std::vector<std::string>> Uninitialized(Session& session) const;

 private:
  struct Group {
    std::vector<std::string> names;
    Output initialized;  // bool, one for each
  };
  std::vector<Group> groups_;
};

// Fills in the empty fields; the saver only if `with_saver`. Errors go to the scope.
Scaffold CompleteScaffold(const Scope& s, Scaffold scaffold, bool with_saver);

// The tasks that the graph's operations name, as SessionOptions::device_filters, so that
// the session waits for no other tasks. Empty if no operation names a task.
std::vector<std::string> TasksOf(const Graph& graph);

}  // namespace thalweg
