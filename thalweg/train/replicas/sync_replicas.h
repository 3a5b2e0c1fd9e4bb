// SPDX-License-Identifier: Apache-2.0
// Training in step: the gradients of several workers are averaged before they
// change the variables, as tf.train.SyncReplicasOptimizer does it.
//
//   const int n = job.num_workers();
//   optimizer = SyncReplicas(std::move(optimizer), {.replicas_to_aggregate = n, .total_num_replicas = n});
//   const Output train_op = optimizer->Minimize(s, loss, {.global_step = GetOrCreateGlobalStep(s)});
//   ... .hooks = optimizer->Hooks(is_chief)
//
// Every variable has an accumulator beside it, which takes the gradients of
// this step and refuses older ones. A thread of the chief takes their mean once
// there are enough, updates the variables and releases the next step: the
// workers' train_op ends then.
//
// A worker that ends leaves: the others go on without it. The chief ends last.
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

struct SyncReplicasOptions {
  int replicas_to_aggregate = 1;  // gradients in a mean
  // Workers, and the chief if it is none of them: Job::num_workers(). A task whose
  // number another has is refused. More than are aggregated: the rest is to spare, and the slowest of
  // a step are refused. Fewer: each gives several gradients. 0: as many.
  int total_num_replicas = 0;
  // A worker that holds up a step for so long is taken for lost; it may come
  // back.
  absl::Duration expel_after = absl::InfiniteDuration();
  // After so long a line says whom a step waits for, and again each time that
  // has doubled.
  absl::Duration say_after = absl::Seconds(10);
  // So long the chief, at its end, waits for others that make no progress.
  absl::Duration linger = absl::Seconds(60);
};

// ApplyGradients needs a global step, and is for once.
std::unique_ptr<Optimizer> SyncReplicas(std::unique_ptr<Optimizer> optimizer, const SyncReplicasOptions& options);

// What became of the gradients since the parameter servers started. A gradient
// is that of one variable: a step of a worker has as many as `variables`.
struct GradientLedger {
  // The gradients of one worker.
  struct Worker {
    int64_t worker = 0;
    int64_t accepted = 0;
    int64_t stale = 0;       // came too late, and was refused
    int64_t last_step = -1;  // of its last gradient
    bool present = true;     // it has not left
  };
  int64_t global_step = 0;
  int64_t variables = 0;
  std::vector<Worker> workers;  // by number

  int64_t accepted() const;      // the sum over all workers
  int64_t stale() const;         // the sum over all workers
  std::string ToString() const;  // a table
};
// Of a graph with a SyncReplicas; NOT_FOUND if it has none. The totals are also
// in the graph, "sync_replicas/accepted" and "sync_replicas/stale", and among its
// summaries.
absl::StatusOr<GradientLedger> ReadLedger(Session& session, const Graph& graph);

}  // namespace thalweg
