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

// What is empty is made of the graph.
struct Scaffold {
  Output init_op;  // gives all variables their first values; run by the chief
  std::vector<Feed> init_feeds;
  // By the chief, after init_op: what a graph cannot do, such as a warm start.
  std::function<absl::Status(Session&)> init_fn;
  // By everyone, in every session: initializes local variables, and whatever
  // else is not shared.
  Output local_init_op;
  Output summary_op;  // all summaries
  std::shared_ptr<Saver> saver;
  std::vector<QueueRunner> queue_runners;  // run while the session does
};

// Which variables of a graph have no value yet. Adds its operations once; a
// check is one step, with one small tensor from each task.
class ReadyCheck {
 public:
  explicit ReadyCheck(const Scope& s);
  absl::StatusOr<std::vector<std::string>> Uninitialized(Session& session) const;

 private:
  struct Group {
    std::vector<std::string> names;
    Output initialized;  // bool, one for each
  };
  std::vector<Group> groups_;
};

// Fills in what is empty. Errors go to the scope. The saver is made only if
// `with_saver`.
Scaffold CompleteScaffold(const Scope& s, Scaffold scaffold, bool with_saver);

// The tasks that the graph's operations name, as device filters of a session,
// which then waits for no others. None if it names none.
std::vector<std::string> TasksOf(const Graph& graph);

}  // namespace thalweg
