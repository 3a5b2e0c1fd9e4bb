// SPDX-License-Identifier: Apache-2.0
// Synchronous training without parameter servers: every worker holds all variables, and the
// workers average their gradients among themselves.
//
//   const Scope s = graph.root().WithDevice(job.task.ToString());  // all variables are this worker's
//   optimizer = AllReduce(std::move(optimizer), {.workers = job.num_workers()});
//   const Output train_op = optimizer->Minimize(s, loss, {.global_step = GetOrCreateGlobalStep(s)});
//   ... MonitoredTrainingSession::Start(graph, {.master = server.target(),
//                                               .is_chief = job.is_chief(),
//                                               .own_variables = true,
//                                               .checkpoint_dir = folder,
//                                               .hooks = optimizer->Hooks(job.is_chief()) + ...,
//                                               .config = {.collective_leader = "/job:worker/replica:0/task:0"}});
//
// Gradients go in buckets, in the order in which the backward pass produces them: a bucket is
// averaged as soon as its last gradient exists, while earlier layers are still being computed.
// All workers start from the values of the chief, which has initialized or restored them, and stay
// bitwise equal: elements are merged in the same order for all.
//
// Every worker must run the same steps. When one is lost, or begins a new session, the step of all others
// ends with an error that names it. AllReduceOptions::on_lost_worker says what happens then.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "thalweg/train/optimizers/optimizers.h"

namespace thalweg {

// What the workers do when one of them is lost: it has died, or hangs, or has begun a new session.
enum class LostWorker {
  kWait,  // wait for it, or for one in its place, and go on together from the chief's last checkpoint
  kGoOn,  // the same for `lost_after`; then go on without it. It takes part again when it comes back
  kEnd,   // end the training with FAILED_PRECONDITION, which names the worker
};

// Which workers average their gradients, and how gradients travel.
struct AllReduceOptions {
  int workers = 1;                  // with the chief
  int64_t bucket_bytes = 25 << 20;  // gradients that are averaged together; at least one
  // The type in which float gradients travel and are added: kHalf or kBfloat16 halve the bytes between hosts at the
  // price of precision. All workers still apply the same bits. kFloat: no compression.
  DType wire = kFloat;
  // Add gradients in the order of workers, so that they have the same bits in every run, on whatever hosts and paths:
  // see CollectiveReduceOptions::rank_order. Without it runs are repeatable as long as workers are on the same hosts.
  bool rank_order = false;
  // What the others do when a worker is lost. kGoOn needs the chief, which is task 0: when it is lost, the others wait
  // for it.
  LostWorker on_lost_worker = LostWorker::kWait;
  absl::Duration lost_after = absl::Seconds(10);  // with kGoOn: how long the others wait for a lost worker
  // If not 0: every so many steps, check that the variables of all workers have the same bits.
  // DATA_LOSS, naming a variable, if not.
  int64_t check_every_n_steps = 0;
  // How long a worker waits at the beginning of a session until all workers have begun. DEADLINE_EXCEEDED after that.
  absl::Duration max_wait = absl::Minutes(10);
  int group_key = 1;  // names the workers among the groups of the job
};

// ApplyGradients is for once. Gradients of rows (of lookups) are made dense.
std::unique_ptr<Optimizer> AllReduce(std::unique_ptr<Optimizer> optimizer, const AllReduceOptions& options);

}  // namespace thalweg
