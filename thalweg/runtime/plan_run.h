// SPDX-License-Identifier: Apache-2.0
// One running copy of a plan: the top level of a step, or the iterations of a loop
// in it. Used by Execution and LoopRun.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "thalweg/base/mutex.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/runtime/adaptive_schedule.h"
#include "thalweg/runtime/plan.h"
#include "thalweg/runtime/step_stats.h"

namespace thalweg {

// A node that waits for something, and for how long it has.
struct WaitingNode {
  const Node* node = nullptr;
  absl::Duration waited;
};

// A wait whose end made the step go on, and how long nothing ran before that.
struct WaitDelay {
  int32_t async_index = -1;  // of its instruction
  int64_t nanos = 0;
};

// Empties a slot without touching `dead`, which readers of status may still ask.
inline void EmptySlot(Slot& slot) {
  slot.tensor.Reset();
  slot.variable = nullptr;
}

// One run of a plan. It counts the segments that have not run and the waits that are not over. The thread that
// brings the count to zero ends the run. After an error, segments are skipped but still counted down; waits end
// because the step is cancelled.
class PlanRun {
 public:
  using Done = absl::AnyInvocable<void(const absl::Status&)>;

  // All is borrowed; `stats` may be nullptr. `frame_id` is that of the loop's frame,
  // 0 at the top level.
  PlanRun(Step& step, StepStatsCollector* stats, const Plan& plan, PlanFrame& frame, uint64_t frame_id);
  ~PlanRun();
  PlanRun(const PlanRun&) = delete;
  PlanRun& operator=(const PlanRun&) = delete;

  // Runs the plan once. Without waits it ends here.
  void Start(int64_t iteration, Done done);
  // The same, for plans without waits.
  absl::Status RunToEnd(int64_t iteration) {
    StartMeasuring(iteration);
    absl::Status status = RunSegmentCode(0);
    if (measure_ != AdaptiveSchedule::Measure::kNothing) [[unlikely]]
      plan_.schedule->EndRun(plan_);
    return status;
  }

  // Adds the nodes that wait now, those in loops too.
  void ListWaits(std::vector<WaitingNode>* nodes) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Calls `visit`, void(const WaitDelay&), for what the plan had to wait for while nothing else
  // was left to do. Time in loops counts as computing. REQUIRES: it is done.
  template <typename Visit>
  void ListDelays(Visit&& visit) const {
    if (!plan_.has_waits) return;
    for (size_t i = 0; i < plan_.wait_successors.size(); ++i) {
      if (const WaitDelay delay = DelayOf(i); delay.nanos > 0) visit(delay);
    }
  }
  PlanFrame& frame() { return frame_; }
  // Empties what the iteration left behind.
  void Clear();
  // After an error, slots hold whatever was computed before it.
  void ClearAll();

 private:
  struct Wait;
  class WaitEnd;

  WaitDelay DelayOf(size_t wait) const;
  // A thread begins or ends to work on the plan. The time in which no thread does is the
  // delay of the wait whose end made one begin.
  void BeginWork(Wait* ended);
  void EndWork();

  // The id of the frame that a loop opens in this iteration.
  uint64_t FrameIdOf(const LoopPlan& loop) const;
  void StartMeasuring(int64_t iteration) {
    iteration_ = iteration;
    measure_ = plan_.schedule->done() ? AdaptiveSchedule::Measure::kNothing : plan_.schedule->StartRun();
  }
  absl::Status RunSegmentCode(int32_t segment);
  absl::Status RunStages(const std::vector<Stage>& stages);
  absl::Status RunCode(absl::Span<const Instruction> code);
  absl::Status RunInstruction(const Instruction& in, KernelContext& context);
  void StartWait(const Instruction& in);
  void BeginWait(const Instruction& in, Wait& wait);
  void EndWait(Wait& wait, const absl::Status& status);
  void EndKernel(Wait& wait, const absl::Status& status);
  void RunSegments(std::vector<int32_t> ready);
  void Release(const std::vector<int32_t>& successors, std::vector<int32_t>* ready);
  void Fail(const absl::Status& status);
  void CountDown(int32_t n);
  absl::Status ReadVariables(const Instruction& in);
  void FreeSlots(const Instruction& in);
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  Step& step_;
  StepStatsCollector* const stats_;
  const Plan& plan_;
  PlanFrame& frame_;
  const uint64_t frame_id_;
  int64_t iteration_ = 0;
  AdaptiveSchedule::Measure measure_ = AdaptiveSchedule::Measure::kNothing;  // what instructions take, in this run

  // Only for plans with waits.
  std::unique_ptr<std::atomic<int32_t>[]> pending_;  // by segment: predecessors not done
  std::unique_ptr<Wait[]> waits_;
  std::atomic<int32_t> left_{0};
  std::atomic<int32_t> workers_{0};     // threads that work on the plan
  std::atomic<int64_t> idle_nanos_{0};  // when the last of them ended
  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  Done done_;
};

}  // namespace thalweg
