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
#include "thalweg/train/replicas/sync_replicas.h"
#include "thalweg/train/session/hooks.h"

namespace thalweg {

// The operations that SyncReplicas adds to a graph, besides the train op.
struct SyncGraph {
  SyncReplicasOptions options;
  int64_t worker = 0;
  Output round;       // waits for gradients, takes their means, updates, releases the next step
  Output local_init;  // initializes the local step of this worker
  Output chief_init;  // the same, and the steps of the accumulators
  Output global_step;
  Output release;        // releases the current step
  Output release_again;  // the same, also to workers that wait already
  Output close_steps;

  Output member;                 // fed: the worker to which the following operations apply
  RosterJoinResult own_join;     // joins this worker
  RosterJoinResult roster_join;  // joins worker `member`
  Output roster_leave;
  Output accumulator_joins, accumulator_leaves;
  RosterMembersResult members;
  Output await_empty;  // waits until everyone has left

  AccumulatorLedgerResult ledger;  // counts of the first variable's accumulator
};

std::shared_ptr<Hook> MakeSyncHook(std::shared_ptr<const SyncGraph> graph, bool is_chief);

}  // namespace thalweg
