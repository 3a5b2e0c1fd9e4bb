// SPDX-License-Identifier: Apache-2.0
// Synchronous training: the mean of several workers' gradients updates the
// variables, as with tf.train.SyncReplicasOptimizer.
//
//   const int n = job.num_workers();
//   optimizer = SyncReplicas(std::move(optimizer), {.replicas_to_aggregate = n, .total_num_replicas = n});
//   const Output train_op = optimizer->Minimize(s, loss, {.global_step = GetOrCreateGlobalStep(s)});
//   ... .hooks = optimizer->Hooks(is_chief)
//
// Every variable has an accumulator on its parameter server, which takes the
// gradients of the current step and refuses older ones. Once there are enough, a
// thread of the chief takes their mean, updates the variables and releases the next
// step. The workers' train_op returns then.
//
// When a worker ends, the others continue without it. The chief ends last.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/client/session.h"
#include "thalweg/train/optimizers/optimizers.h"

namespace thalweg {

// How many gradients make a step, and what happens to workers that are late.
struct SyncReplicasOptions {
  int replicas_to_aggregate = 1;  // number of gradients that are averaged per step
  // Number of workers, including a chief that is not one of them: Job::num_workers().
  // If it exceeds replicas_to_aggregate, the difference are backup workers: the
  // slowest gradients of each step are refused. If it is smaller, each worker
  // contributes several gradients. 0: the same as replicas_to_aggregate. Two tasks
  // with the same worker index are an error.
  int total_num_replicas = 0;
  // A worker that delays a step for this long is considered lost, and the others
  // continue without it. It may come back.
  absl::Duration expel_after = absl::InfiniteDuration();
  // How long a step may wait before a log line names the workers that it waits for.
  // Repeated each time the wait has doubled.
  absl::Duration log_after = absl::Seconds(10);
  // How long the chief, at its end, waits for workers that make no progress.
  absl::Duration chief_wait = absl::Seconds(60);
};

// Wraps `optimizer`. ApplyGradients needs a global step and may be called once.
std::unique_ptr<Optimizer> SyncReplicas(std::unique_ptr<Optimizer> optimizer, const SyncReplicasOptions& options);

// Counts of the gradients that were accepted and refused since the parameter servers
// started. Each variable counts by itself: a worker's step adds `variables` gradients.
struct GradientLedger {
  // The gradients of one worker.
  struct Worker {
    int64_t worker = 0;      // index of the worker
    int64_t accepted = 0;    // gradients that were averaged
    int64_t stale = 0;       // gradients that came too late and were refused
    int64_t last_step = -1;  // global step of its last gradient; -1: none
    bool present = true;     // false if it has left
  };
  int64_t global_step = 0;      // current global step
  int64_t variables = 0;        // number of variables that are trained
  std::vector<Worker> workers;  // by index

  int64_t accepted() const;      // the sum over all workers
  int64_t stale() const;         // the sum over all workers
  std::string ToString() const;  // as a table
};
// Reads the counts of a graph. NOT_FOUND if it does not use SyncReplicas. The totals
// are also tensors of the graph, "sync_replicas/accepted" and "sync_replicas/stale",
// and summaries.
absl::StatusOr<GradientLedger> ReadLedger(Session& session, const Graph& graph);

}  // namespace thalweg
