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
#include "thalweg/kernel/resource_report.h"
#include "thalweg/ops/support/wait_list.h"

namespace thalweg {

// The number of gradients to wait for if `wanted` gradients of `total` workers are configured and
// `left` workers have left: at most the number of remaining workers or, if each contributes
// several, in proportion. At least 1.
int64_t Quorum(int64_t wanted, int64_t total, int64_t left);

// Workers are identified by numbers. Thread-safe.
class Roster : public Resource, public ReportedResource, public std::enable_shared_from_this<Roster> {
 public:
  static constexpr char kTypeName[] = "N7thalweg6RosterE";

  struct Member {
    bool present = true;
    int64_t clock = 0;  // steps done
    int64_t waits = 0;  // how often it waited because it was too far ahead
    std::string task;   // the task with this number; "" if unknown
    // If it is not present: whether others have removed it because it held them up, and when it left.
    bool expelled = false;
    int64_t left_nanos = 0;
  };
  using Members = std::map<int64_t, Member>;
  Roster();
  using Done = absl::AnyInvocable<void(const absl::Status&)>;

  // Adds a worker. A new worker starts at the step of the slowest, so that nobody waits for it to
  // catch up. Returns the worker's previous state; nullptr if it is new. ALREADY_EXISTS if another
  // task is present with the same number.
  absl::StatusOr<std::unique_ptr<Member>> Join(int64_t worker, const std::string& task = "");
  // Removes a worker: the others no longer wait for it. `expelled`: it has not asked for that. A worker that has left
  // is not expelled any more.
  void Leave(int64_t worker, bool expelled = false);
  // Takes back a worker that was expelled. False if it is not expelled: it has come back by itself, or has left.
  bool TakeBack(int64_t worker);
  void Clear();  // forgets everyone
  Members members() const;

  // Bounded staleness: `worker` has done a step. Adds the worker if it is not present.
  void Advance(int64_t worker, int64_t slack);
  // Calls `done` when `worker` is at most `slack` steps ahead of the slowest present worker.
  void AwaitTurn(int64_t worker, int64_t slack, const WaitingCaller& caller, Done done);
  // How many steps `worker` is ahead of the slowest present worker. 0 if it is not present.
  int64_t Lead(int64_t worker) const;
  // Synchronous training: calls `done` with the current step when `round`, which takes the worker's gradients, is
  // released. The accumulators say which it is: when a worker runs a step again, they may have its gradients already,
  // or a round may have taken them. If a step needs more gradients than there are workers, some workers repeat the same
  // step. ABORTED if the round is not released, and the generation is not the one in which the worker began its step:
  // its gradients may be lost, and it must run the step again under the same number. OUT_OF_RANGE if there will be no
  // more steps.
  using StepDone = absl::AnyInvocable<void(const absl::Status&, int64_t step, int64_t generation)>;
  void AwaitStep(int64_t worker, int64_t round, int64_t generation, const WaitingCaller& caller, StepDone done);
  // A new generation begins when the variables get new values, because gradients may be lost then.
  int64_t generation() const;

  struct Released {
    int64_t step = 0;    // the variables now belong to this step
    int64_t round = 0;   // the round that has updated them
    int64_t wanted = 1;  // number of gradients that the step needs,
    int64_t total = 1;   // and of workers
    bool again = false;  // the variables have got new values: a new generation begins
  };
  // Ignores a round that was released before.
  void Release(const Released& released);
  void Wake();        // begins a new generation, so that the chief's own step ends if its round has failed
  void CloseSteps();  // until the next Release

  // Calls `done` when no worker is present.
  void AwaitEmpty(const WaitingCaller& caller, Done done);

  std::string Describe() const override;
  void Report(ResourceReport* report) const override;

 private:
  Member& JoinLocked(int64_t worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t NumLeft() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The clock of the slowest present worker; -1 if there is none.
  int64_t Slowest() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t LeadLocked(int64_t worker) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  Members members_ ABSL_GUARDED_BY(mutex_);
  int64_t step_ ABSL_GUARDED_BY(mutex_) = -1;  // the last released step
  int64_t extra_ ABSL_GUARDED_BY(mutex_) = 0;  // gradients still needed from workers that have sent one already
  int64_t round_ ABSL_GUARDED_BY(mutex_) = 0;  // the last released round
  int64_t base_ ABSL_GUARDED_BY(mutex_) = 0;   // the round when this generation of values began
  int64_t generation_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  WaitList waits_{/*in_order=*/false};  // guarded by mutex_
};

}  // namespace thalweg
