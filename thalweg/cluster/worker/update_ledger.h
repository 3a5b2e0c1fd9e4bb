// Exactly once: which updates of a training step this task has applied.
//
// A client that trains numbers its steps. If it does not learn how a step ended,
// it runs the step again under the same number, and every task skips the updates
// that it has applied before. What was applied late, by a part of a step that the
// client has given up, is skipped, too: the client has gone on to a later number.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/kernel.h"

namespace thalweg {

// A step of a client that numbers them.
struct StepIdentity {
  uint64_t client = 0;  // 0: the step has no number
  int64_t sequence = 0;
  friend bool operator==(const StepIdentity&, const StepIdentity&) = default;
};

// The step of a worker session, as its kernels see it.
struct TrackedStep : Step {
  StepIdentity identity;
};

// Of one task. Thread-safe.
class UpdateLedger {
 public:
  // True if this update of the step is to be applied now: it counts as applied
  // from here on. False if it was applied before, or if the client is at a later
  // step.
  bool Claim(const StepIdentity& step, uint64_t update);
  // The update has failed.
  void Unclaim(const StepIdentity& step, uint64_t update);
  // Variables were given other values, as from a checkpoint: what was applied is
  // gone with the old ones.
  void Forget();

 private:
  struct Client {
    int64_t sequence = 0;
    absl::flat_hash_set<uint64_t> applied;  // of that step
    std::list<uint64_t>::iterator place;    // in recent_
  };
  // Clients that come after so many others are forgotten.
  static constexpr size_t kMaxClients = 4096;

  Mutex mutex_;
  absl::flat_hash_map<uint64_t, Client> clients_ ABSL_GUARDED_BY(mutex_);
  std::list<uint64_t> recent_ ABSL_GUARDED_BY(mutex_);  // clients, the one that was heard last in front
};

// True for nodes whose whole effect is a change of the variable in input 0.
bool ChangesVariable(const Node& node);

// The kernel of a node that changes a variable, so that it runs once per numbered
// step; other kernels as they are. REQUIRES: the steps that run
// it are TrackedSteps; the ledger outlives it.
std::shared_ptr<Kernel> OncePerStep(std::shared_ptr<Kernel> kernel, const Node& node, UpdateLedger* ledger);

}  // namespace thalweg
