// SPDX-License-Identifier: Apache-2.0
// A worker that trains the tables of history.h.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "history.h"
#include "thalweg/cluster/cluster_spec.h"

namespace thalweg {

struct CountingWorkerOptions {
  Replication replication = Replication::kAsynchronous;
  ClusterSpec cluster;
  int worker = 0;  // 0 is the chief
  int workers = 2;
  std::string target;
  std::string folder;   // for checkpoints
  int64_t padding = 0;  // additional elements of a table
  int64_t save_every = 20;
  absl::Duration think_time;  // between steps
  absl::Duration max_wait = absl::Minutes(2);
  // A step that ends with this global step, or a later one, is the last.
  std::function<int64_t()> last_global_step;
  std::function<bool()> stop;      // asked before every step
  std::function<bool()> abandon;   // asked before every step: the program ends without closing its session
  std::function<int()> next_step;  // the number of the worker's next step
  std::function<void(int64_t global_step)> after_step = [](int64_t) {};
  // All-reduce: gets the state at the end.
  TrainingState* end = nullptr;
};

// Trains until stop() is true. Errors are those of MonitoredTrainingSession.
absl::Status RunCountingWorker(const CountingWorkerOptions& options, HistoryRecorder& recorder);

// Reads the tables from the parameter servers. Without `close`, the session is left to the server.
absl::StatusOr<TrainingState> ReadState(const CountingWorkerOptions& options, bool close = true);

}  // namespace thalweg
