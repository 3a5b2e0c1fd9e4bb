// SPDX-License-Identifier: Apache-2.0
// Runs executables.
#pragma once

#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/runtime/plan.h"
#include "thalweg/runtime/plan_run.h"
#include "thalweg/runtime/step_stats.h"

namespace thalweg {

// One step of an executable: runs on the caller's thread until everything is
// done or waits; goes on where the waits end. Cancelling the step's
// Cancellation ends it soon, with that status.
//
// Make one per step; it must live until it is done.
class Execution {
 public:
  using Done = absl::AnyInvocable<void(const absl::Status&)>;

  // `step` and `stats` (which may be nullptr) are borrowed.
  Execution(Executable& executable, Step& step, StepStatsCollector* stats = nullptr);
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // Starts the step with the values of its _Arg nodes. `done` runs exactly
  // once, on this thread or another; on success Results() then has the values.
  // If the step ended on this thread, `done` has run when this returns.
  void Start(absl::Span<const Tensor> args, Done done);

  // Runs to the end, on this thread as far as possible. Each time it has waited
  // for `log_wait_after` it logs what it waits for.
  absl::Status Run(absl::Span<const Tensor> args, absl::Duration log_wait_after = absl::Seconds(10));

  // The values of the _Retval nodes, in order; moves them out.
  // REQUIRES: the step is done, with success.
  absl::Status TakeResults(std::vector<Tensor>* results);

  // The nodes that wait now, for messages: "'dequeue' (QueueDequeueV2) on /device:CPU:0
  // for 3 s". Any thread may ask while the step runs.
  std::string DescribeWaits() const;
  // The nodes that wait now, and for how long. Any thread may ask while the step runs.
  std::vector<WaitingNode> WaitingNodes() const;
  // See PlanRun::ListDelays(). REQUIRES: the step is done.
  template <typename Visit>
  void ListDelays(Visit&& visit) const {
    run_->ListDelays(visit);
  }
  // True if the step only waits for room in full queues. That is not a problem: a producer is meant to be
  // ahead of its consumers.
  bool WaitsForRoom() const;

 private:
  absl::Status BindArgs(absl::Span<const Tensor> args);

  Executable& executable_;
  Step& step_;
  std::unique_ptr<PlanFrame> frame_;
  std::unique_ptr<PlanRun> run_;
};

}  // namespace thalweg
