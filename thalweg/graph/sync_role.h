// SPDX-License-Identifier: Apache-2.0
// The part that an op plays in synchronous and bounded-staleness training. By it, and not by the names of ops, tasks
// count a worker's steps, tell training from aggregation, and say what a node waits for. The file that registers an op
// declares its role beside it:
//
//   const SyncRoleRegistration kRoles[] = {{"AccumulatorTakeGradient", SyncRole::kTakeGradients}};
#pragma once

#include "absl/strings/string_view.h"
#include "thalweg/graph/graph.h"

namespace thalweg {

enum class SyncRole {
  kNone,
  kSubmitGradient,  // adds a worker's gradient to an accumulator; changes no variable yet
  kAwaitGradients,  // waits until an accumulator has enough gradients, and leaves them there
  kTakeGradients,   // waits for enough gradients and takes them
  kTakeRound,       // takes the gradients of a round that is complete; does not wait
  kDropGradients,   // empties an accumulator, because the variables have got new values
  kFinishStep,      // tells the roster that a worker has ended its step
  kAwaitStep,       // waits until the roster lets a worker begin its next step
};

// The role of a node's op.
SyncRole SyncRoleOf(const Node& node);

// Declares the role of an op. Meant for constants at namespace scope: roles do not change after the start of main().
// REQUIRES: the op has no role yet (CHECKed: a programming error).
class SyncRoleRegistration {
 public:
  SyncRoleRegistration(absl::string_view op, SyncRole role);
};

}  // namespace thalweg
