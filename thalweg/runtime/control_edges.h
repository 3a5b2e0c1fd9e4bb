// SPDX-License-Identifier: Apache-2.0
// Saves messages between tasks that only say that something has run.
//
// - A NoOp on another task is bypassed: nodes that wait for it wait for its control inputs instead, if that takes no
//   more messages. Example: the group of all updates, on the worker, that the update of the global step waits for. The
//   parameter servers then need not tell the worker, and the worker need not tell them.
// - A node that waits for a node of another task, a small value of which its own task gets anyway, waits for that
//   value.
// - Nodes of one task for which a node of another task waits first meet in a NoOp, and one message tells of all of
//   them.
//
// Graphs with control flow stay as they are, because a signal there also says whether its source is dead.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "thalweg/graph/graph.h"

namespace thalweg {

// `graph` is placed: every node has a full device name. `targets` are names of nodes that must stay.
absl::Status ShortenControlEdges(Graph& graph, const std::vector<std::string>& targets);

}  // namespace thalweg
