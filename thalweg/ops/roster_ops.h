// SPDX-License-Identifier: Apache-2.0
// Ops of synchronous and bounded-staleness training that TensorFlow does not have: who
// takes part in a training, and gradients by worker. For train/; not part of the API.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "thalweg/graph/scope.h"
#include "thalweg/ops/data_flow_ops.h"

namespace thalweg {

// Extensions of TensorFlow's accumulators. Workers are numbers; an
// AccumulatorApplyGradient that has the attribute "_worker" says from whom its
// gradient is.
inline constexpr char kWorkerAttr[] = "_worker";
// With this attribute (true) the worker counts once per step: another gradient of
// it before the next take is dropped, since it is that of a step that was run
// again.
inline constexpr char kOncePerStepAttr[] = "_once_per_step";
// One of `total` workers has left: takes wait for so many gradients less as
// Quorum() in roster.h says, those that wait already too.
Output AccumulatorLeave(const Scope& s, Output handle, Output worker, int64_t total);
Output AccumulatorJoin(const Scope& s, Output handle, Output worker);  // came back; -1: all did
// Gradients since the accumulator was made, for each worker, -1 for those that
// do not say: how many were accepted and how many were refused, because they
// were too old or came twice, and the step of the last.
struct AccumulatorLedgerResult {
  Output worker, accepted, stale, last_step;
};
AccumulatorLedgerResult AccumulatorLedger(const Scope& s, Output handle);
// The round that takes the worker's last gradient; see accumulator.h.
Output AccumulatorRoundOf(const Scope& s, Output handle, int64_t worker);

// Takes that can be repeated, in numbered rounds; see accumulator.h. The gradients come from `total` workers.
Output AccumulatorAwaitRound(const Scope& s, Output handle, Output round, int64_t required, int64_t total);
Output AccumulatorTakeRound(const Scope& s, Output handle, Output round, DType dtype);
SparseGradientResult SparseAccumulatorTakeRound(const Scope& s, Output handle, Output round, DType dtype);
Output AccumulatorReset(const Scope& s, Output handle, Output step, Output round);

// Rosters: who takes part in a training, and how far each has come; see
// roster.h.
Output RosterOf(const Scope& s, absl::string_view shared_name);
struct RosterJoinResult {
  Output was_present, had_left;
};
// ALREADY_EXISTS if another task has the number; without a task none is compared.
RosterJoinResult RosterJoin(const Scope& s, Output roster, Output worker, const std::string& task = "");
Output RosterLeave(const Scope& s, Output roster, Output worker);  // -1: forgets everyone
Output RosterExpel(const Scope& s, Output roster, Output worker);  // the others go on without it
// Takes back an expelled worker. False if it has come back by itself or has left.
Output RosterTakeBack(const Scope& s, Output roster, Output worker);
struct RosterMembersResult {
  Output worker, present, clock, waits;
};
RosterMembersResult RosterMembers(const Scope& s, Output roster);
// Synchronous training: a worker sends its gradients and waits until the round that takes them is over. The one who
// updates the variables releases the next step.
struct RosterStep {
  Output step, generation;
};
RosterStep RosterAwaitStep(const Scope& s, Output roster, Output worker, Output round, Output generation);
Output RosterGeneration(const Scope& s, Output roster);
struct RosterReleaseOptions {
  int64_t wanted = 1;  // gradients
  int64_t total = 1;   // workers
  bool again = false;  // the variables have got new values: waiting workers start this step, too
};
Output RosterRelease(const Scope& s, Output roster, Output step, Output round, const RosterReleaseOptions& options);
Output RosterWake(const Scope& s, Output roster);        // waits end with the current step
Output RosterCloseSteps(const Scope& s, Output roster);  // waits end with OUT_OF_RANGE
// Bounded staleness: a step of `worker` is done. Counts a wait if it is more than `slack` ahead.
Output RosterAdvance(const Scope& s, Output roster, Output worker, int64_t slack);
// Waits while `worker` is more than `slack` ahead.
Output RosterAwaitTurn(const Scope& s, Output roster, Output worker, int64_t slack);
// How many steps `worker` is ahead of the slowest.
Output RosterLead(const Scope& s, Output roster, Output worker);
Output RosterAwaitEmpty(const Scope& s, Output roster);

// Groups whose workers may be lost and come back; see group_assembly.h. In the task of the chief.
struct AssembleGroupOptions {
  std::string shared_name;    // names the group's assembly; the same for all workers
  int64_t worker = 0;         // this worker; 0 is the chief
  int64_t workers = 1;        // of the job
  absl::Duration lost_after;  // how long the chief waits for workers of the last group
};
struct AssembledGroup {
  Output group;    // int32 [2]: size and key of the group; zeros if it has not assembled yet: ask again
  Output missing;  // int64: the workers for which it waits
};
// `session` is an int64 that differs between the sessions of a worker. `again`: the worker has been in a group before.
AssembledGroup AssembleGroup(const Scope& s, Output session, Output again, const AssembleGroupOptions& options);

}  // namespace thalweg
