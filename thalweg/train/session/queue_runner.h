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

// Threads that fill a queue. A value, valid as long as the graph.
struct QueueRunner {
  std::string name;                 // name of the threads in messages
  std::vector<Output> enqueue_ops;  // one thread runs each; an op may be listed several times
  Output close_op;                  // closes the queue at the end of the data; elements in it can still be dequeued
  Output cancel_op;                 // closes the queue after an error and cancels pending enqueues
};

// Makes a QueueRunner for a queue, and adds the operations that close the queue.
QueueRunner MakeQueueRunner(const Scope& s, Output queue, std::vector<Output> enqueue_ops);

// Starts the threads. They run until the coordinator stops or the data ends
// (OUT_OF_RANGE), then the queue is closed. Any other error stops the coordinator. Join
// the coordinator before the session is destroyed.
void StartQueueRunners(const std::vector<QueueRunner>& runners, Session& session, Coordinator& coordinator);

}  // namespace thalweg
