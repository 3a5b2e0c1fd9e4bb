// SPDX-License-Identifier: Apache-2.0
// The roster: which workers take part in a training, and how many steps each has done. It lives
// on a parameter server, with the shared variables.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/resource.h"
#include "thalweg/ops/support/wait_list.h"

namespace thalweg {

// The number of gradients to wait for if `wanted` gradients of `total` workers are configured and
// `left` workers have left: at most the number of remaining workers or, if each contributes
// several, in proportion. At least 1.
int64_t Quorum(int64_t wanted, int64_t total, int64_t left);

// Workers are identified by numbers. Thread-safe.
class Roster : public Resource, public std::enable_shared_from_this<Roster> {
 public:
  static constexpr char kTypeName[] = "N7thalweg6RosterE";

  struct Member {
    bool present = true;
    int64_t clock = 0;  // steps done
    int64_t waits = 0;  // how often it waited because it was too far ahead
    std::string task;   // the task with this number; "" if unknown
  };
  using Members = std::map<int64_t, Member>;
  using Done = absl::AnyInvocable<void(const absl::Status&)>;

  // Adds a worker. A new worker starts at the step of the slowest, so that nobody waits for it to
  // catch up. Returns the worker's previous state; nullptr if it is new. ALREADY_EXISTS if another
  // task is present with the same number.
  absl::StatusOr<std::unique_ptr<Member>> Join(int64_t worker, const std::string& task = "");
  // Removes a worker: the others no longer wait for it.
  void Leave(int64_t worker);
  void Clear();  // forgets everyone
  Members members() const;

  // Bounded staleness: `worker` has done a step. Calls `done` when it is at most `slack` steps
  // ahead of the slowest present worker. Adds the worker if it is not present.
  void Advance(int64_t worker, int64_t slack, const WaitingCaller& caller, Done done);
  // Synchronous training: a worker has sent its gradients for `local_step`. Calls `done` with the
  // next step when a later step is released. If a step needs more gradients than there are
  // workers, some workers repeat the same step. OUT_OF_RANGE if there will be no more steps.
  using StepDone = absl::AnyInvocable<void(const absl::Status&, int64_t step)>;
  void AwaitStep(int64_t local_step, const WaitingCaller& caller, StepDone done);
  // The variables now belong to `step`, which needs `wanted` gradients of `total` workers. With
  // `again`, waiting workers start this step, too.
  void Release(int64_t step, int64_t wanted, int64_t total, bool again);
  void CloseSteps();  // until the next Release

  // Calls `done` when no worker is present.
  void AwaitEmpty(const WaitingCaller& caller, Done done);

  std::string Describe() const override;

 private:
  Member& JoinLocked(int64_t worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t NumLeft() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The clock of the slowest present worker; -1 if there is none.
  int64_t Slowest() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  Members members_ ABSL_GUARDED_BY(mutex_);
  int64_t step_ ABSL_GUARDED_BY(mutex_) = -1;       // the last released step
  int64_t extra_ ABSL_GUARDED_BY(mutex_) = 0;       // gradients still needed from workers that have sent one already
  int64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;  // incremented to end all waits
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  WaitList waits_{/*in_order=*/false};  // guarded by mutex_
};

}  // namespace thalweg
