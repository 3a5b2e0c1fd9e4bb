// The hook of a synchronous optimizer: who takes part, and the chief's thread
// that turns gradients into updates.
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

// What SyncReplicas adds to a graph, beside the train op.
struct SyncGraph {
  SyncReplicasOptions options;
  int64_t worker = 0;
  Output round;       // waits for gradients, takes their means, updates, releases the next step
  Output local_init;  // the step of this worker
  Output chief_init;  // ...and those of the accumulators
  Output global_step;
  Output release;        // the step that is
  Output release_again;  // ...to those who wait, too
  Output close_steps;

  Output member;                 // fed: a worker, for what follows
  RosterJoinResult own_join;     // this worker's
  RosterJoinResult roster_join;  // in the place of another
  Output roster_leave;
  Output accumulator_joins, accumulator_leaves;
  RosterMembersResult members;
  Output await_empty;  // waits until everyone has left

  AccumulatorLedgerResult ledger;  // of the first variable
};

std::shared_ptr<Hook> MakeSyncHook(std::shared_ptr<const SyncGraph> graph, bool is_chief);

}  // namespace thalweg
