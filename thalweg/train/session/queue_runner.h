// SPDX-License-Identifier: Apache-2.0
// QueueRunner: threads that keep a queue filled.
//
//   const Output queue = FIFOQueue(s, {kFloat}, {Shape()}, {.capacity = 100});
//   const QueueRunner runner = MakeQueueRunner(s, queue, {QueueEnqueue(s, queue, {value})});
//   StartQueueRunners({runner}, session, coordinator);
#pragma once

#include <string>
#include <vector>

#include "thalweg/client/session.h"
#include "thalweg/graph/scope.h"
#include "thalweg/train/session/coordinator.h"

namespace thalweg {

// A value; valid as long as the graph.
struct QueueRunner {
  std::string name;
  std::vector<Output> enqueue_ops;  // a thread for each; the same one may be there several times
  Output close_op;                  // when the data is at its end: what is in the queue can still be taken
  Output cancel_op;                 // when something went wrong
};

// Adds the operations that close the queue.
QueueRunner MakeQueueRunner(const Scope& s, Output queue, std::vector<Output> enqueue_ops);

// Starts the threads, which run until the coordinator stops or the data ends
// (OUT_OF_RANGE); then the queue is closed. Another error stops the coordinator.
// The session must outlive them: Join the coordinator first.
void StartQueueRunners(const std::vector<QueueRunner>& runners, Session& session, Coordinator& coordinator);

}  // namespace thalweg
