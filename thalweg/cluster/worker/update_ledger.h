// SPDX-License-Identifier: Apache-2.0
// Exactly-once updates: records which updates of a training step this task has applied.
//
// A training client numbers its steps. If it does not learn how a step ended, it repeats
// the step under the same number, and every task skips the updates that it has already
// applied. Late updates of a step that the client has given up are skipped, too, because
// the client has moved on to a later number.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/kernel.h"

namespace thalweg {

// Identifies a step of a client that numbers its steps.
struct StepIdentity {
  uint64_t client = 0;  // 0: the step has no number
  int64_t sequence = 0;
  friend bool operator==(const StepIdentity&, const StepIdentity&) = default;
};

// Counts the nodes of a step that save variables, and have the values that they save.
class SaveNotice {
 public:
  // Calls `held` whenever one of the `nodes` nodes has its values and is about to write them, with the number of nodes
  // that do not have theirs yet.
  SaveNotice(int nodes, absl::AnyInvocable<void(int) const> held) : left_(nodes), held_(std::move(held)) {}
  void Held() { held_(left_.fetch_sub(1) - 1); }

 private:
  std::atomic<int> left_;
  const absl::AnyInvocable<void(int) const> held_;
};

// The Step that kernels of a worker session get.
struct TrackedStep : Step {
  StepIdentity identity;
  SaveNotice* save = nullptr;  // nullptr: nobody waits for the values that the step saves
};

// One per task. Thread-safe.
class UpdateLedger {
 public:
  // Returns true if the caller must apply this update of the step; it counts as applied
  // from now on. Returns false if it was applied before, or if the client has moved on to
  // a later step.
  bool Claim(const StepIdentity& step, uint64_t update);
  // The claimed update has failed and may be applied again.
  void Unclaim(const StepIdentity& step, uint64_t update);
  // Variables got new values, for example from a checkpoint, or gradients were dropped. The
  // updates that were applied are lost and may be applied again.
  void Forget();

 private:
  struct Client {
    int64_t sequence = 0;
    absl::flat_hash_set<uint64_t> applied;  // the applied updates of step `sequence`
    std::list<uint64_t>::iterator place;    // its position in recent_
  };
  // Beyond this number, the client that was not heard from for the longest time is dropped.
  static constexpr size_t kMaxClients = 4096;

  Mutex mutex_;
  absl::flat_hash_map<uint64_t, Client> clients_ ABSL_GUARDED_BY(mutex_);
  std::list<uint64_t> recent_ ABSL_GUARDED_BY(mutex_);  // clients, most recently heard from first
};

// True for nodes whose only side effect is to update the variable in input 0.
bool ChangesVariable(const Node& node);
// Whether steps of the graph update variables or contribute a gradient. The aggregation
// round of synchronous training is not a step of its own.
bool IsTraining(const Graph& graph);

// Wraps the kernel of a node that saves variables: before it writes, it says that it has the
// values. Updates do not change them any more. Returns other kernels unchanged. REQUIRES: the
// kernel runs in TrackedSteps only.
std::shared_ptr<Kernel> WithSaveNotice(std::shared_ptr<Kernel> kernel, const Node& node);

// Wraps the kernel of a node that updates a variable so that it runs once per numbered
// step, and that of a node that undoes updates so that they may run again. Returns other kernels unchanged. REQUIRES:
// the kernel runs in TrackedSteps only, and the ledger outlives it.
std::shared_ptr<Kernel> OncePerStep(std::shared_ptr<Kernel> kernel, const Node& node, UpdateLedger* ledger);

}  // namespace thalweg
