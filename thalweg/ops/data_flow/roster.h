// Roster: which workers take part in a training, and how many steps each has
// done. It lives on a parameter server, beside what the workers share.
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

// How many gradients to wait for when `wanted` of `total` workers were asked for
// and `left` of those have left: no more than there are workers; or, if each was
// to give several, in proportion. At least 1.
int64_t Quorum(int64_t wanted, int64_t total, int64_t left);

// Workers are numbers. Thread-safe.
class Roster : public Resource, public std::enable_shared_from_this<Roster> {
 public:
  static constexpr char kTypeName[] = "N7thalweg6RosterE";

  struct Member {
    bool present = true;
    int64_t clock = 0;  // steps done
    int64_t waits = 0;  // times it was too far ahead
    std::string task;   // whose number it is; "": nobody has said
  };
  using Members = std::map<int64_t, Member>;
  using Done = absl::AnyInvocable<void(const absl::Status&)>;

  // Who is new starts where the slowest is, so that nobody waits for it to
  // catch up. What the worker was before; nullptr: not known. ALREADY_EXISTS if
  // another task is present under the same number.
  absl::StatusOr<std::unique_ptr<Member>> Join(int64_t worker, const std::string& task = "");
  // It is not waited for any more.
  void Leave(int64_t worker);
  void Clear();  // forgets everyone
  Members members() const;

  // A step of `worker` is done; ends when it is at most `slack` steps ahead of
  // the slowest that is present. Joins it, if it is not.
  void Advance(int64_t worker, int64_t slack, const WaitingCaller& caller, Done done);
  // Training in step. A worker has given its gradients for `local_step`; ends,
  // with the step to go on with, when a later one was released. If more
  // gradients are wanted than there are workers, some go on with the same step.
  // OUT_OF_RANGE if there will be no more.
  using StepDone = absl::AnyInvocable<void(const absl::Status&, int64_t step)>;
  void AwaitStep(int64_t local_step, const WaitingCaller& caller, StepDone done);
  // The variables are those of `step`, for which `wanted` gradients of `total`
  // workers are needed. `again`: whoever waits starts anew.
  void Release(int64_t step, int64_t wanted, int64_t total, bool again);
  void CloseSteps();  // until the next Release

  // Ends when nobody is present.
  void AwaitEmpty(const WaitingCaller& caller, Done done);

  std::string Describe() const override;

 private:
  Member& JoinLocked(int64_t worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t NumLeft() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t Slowest() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);  // of those present; -1: none is

  mutable Mutex mutex_;
  Members members_ ABSL_GUARDED_BY(mutex_);
  int64_t step_ ABSL_GUARDED_BY(mutex_) = -1;       // released last
  int64_t extra_ ABSL_GUARDED_BY(mutex_) = 0;       // gradients wanted from workers that gave one already
  int64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;  // of waits
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  WaitList waits_{/*in_order=*/false};  // guarded by mutex_
};

}  // namespace thalweg
