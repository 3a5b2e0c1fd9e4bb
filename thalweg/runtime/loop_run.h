// SPDX-License-Identifier: Apache-2.0
// A running loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/runtime/plan.h"
#include "thalweg/runtime/plan_run.h"
#include "thalweg/runtime/step_stats.h"

namespace thalweg {

// Runs the iterations of a loop, one after the other.
class LoopRun {
 public:
  using Done = PlanRun::Done;

  // All is borrowed; `stats` may be nullptr. Values enter from `outer` and leave to it.
  LoopRun(Step& step, StepStatsCollector* stats, const LoopPlan& plan, PlanFrame& outer, PlanFrame& inner,
          uint64_t frame_id)
      : step_(step), plan_(plan), outer_(outer), body_(step, stats, plan.body, inner, frame_id) {}

  // For loops without waits.
  absl::Status RunToEnd();
  // For others. `done` may destroy this.
  void Start(Done done);

  // Adds the nodes that wait now.
  void ListWaits(std::vector<WaitingNode>* nodes) const { body_.ListWaits(nodes); }

 private:
  // Brings values in. False if they are all dead: then so are the exits.
  bool Enter();
  // After an iteration: values that leave, values that come round. False if
  // none come round: the loop is over.
  bool Advance();
  // Empties the slots after an error, which it returns.
  absl::Status Abandon(const absl::Status& status);
  // Starts iterations until one waits.
  void Iterate();
  void Finish(const absl::Status& status);

  Step& step_;
  const LoopPlan& plan_;
  PlanFrame& outer_;
  PlanRun body_;
  int64_t iteration_ = 0;
  std::atomic<int> turn_{0};
  absl::Status status_;
  Done done_;
};

}  // namespace thalweg
