// SPDX-License-Identifier: Apache-2.0
// The hook of SyncReplicas. It makes the worker join and leave the training, and runs the
// chief's thread that aggregates gradients and applies updates.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "thalweg/graph/scope.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/roster_ops.h"
#include "thalweg/train/replicas/sync_replicas.h"
#include "thalweg/train/session/hooks.h"

namespace thalweg {

// The operations that SyncReplicas adds to a graph, besides the train op.
struct SyncGraph {
  SyncReplicasOptions options;
  int64_t worker = 0;
  // A round: one update of the variables.
  std::vector<Output> round_number;  // fed, one per device: the round to which the following operations apply
  Output await_round;                // waits until all accumulators have enough gradients
  Output apply_round;                // takes their means, updates the variables, releases the next step
  Output begin_rounds;               // the variables have got new values: drops gradients, releases the current step
  Output local_init;                 // initializes the local step of this worker
  Output global_step;
  Output wake;          // workers that wait begin their step again
  Output rounds_begun;  // waits until the chief has begun
  Output close_steps;

  Output member;              // fed: the worker to which the following operations apply
  RosterJoinResult own_join;  // joins this worker
  Output roster_leave, roster_expel, roster_take_back;
  Output accumulator_joins, accumulator_leaves;
  RosterMembersResult members;
  Output await_empty;  // waits until everyone has left

  std::vector<AccumulatorLedgerResult> ledgers;  // counts of every accumulator
};

std::shared_ptr<Hook> MakeSyncHook(std::shared_ptr<const SyncGraph> graph, bool is_chief);

}  // namespace thalweg
