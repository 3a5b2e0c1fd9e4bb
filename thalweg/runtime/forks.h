// Where a plan runs on two threads at once.
//
// Straight-line code is cheapest on one thread; a hop to another costs several
// microseconds. So the first steps measure what every instruction takes, and
// then the code is cut into stages: runs of it that are either serial, or two
// lanes that do not depend on each other and have enough to do, both of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/types/span.h"
#include "thalweg/runtime/plan.h"

namespace thalweg {

// Instructions to run one after the other and, beside them, others. Slots that
// both lanes read are emptied when both are done.
struct Stage {
  std::vector<Instruction> first;
  std::vector<Instruction> second;  // empty: a serial stage
  std::vector<int32_t> frees;
};

struct InstructionCost {
  double nanos = 0;         // as measured
  double serial_nanos = 0;  // without the help of other threads
};

// The stages of code [begin, end) of a plan; empty if it should not fork.
// Forks where both lanes have at least `min_lane_nanos` and the lanes together
// are faster than the code one after the other.
std::vector<Stage> FindStages(const Plan& plan, int32_t begin, int32_t end, absl::Span<const InstructionCost> costs,
                              double min_lane_nanos = 10'000);

// What a plan has learnt. Thread-safe.
class Forks {
 public:
  static constexpr int kWarmUpRuns = 4;
  static constexpr int kMeasuredRuns = 16;

  // Stages by segment, once they are known; nullptr before, and if nothing is
  // worth forking.
  const std::vector<std::vector<Stage>>* stages() const { return stages_.load(std::memory_order_acquire); }

  // Asked by every run as long as done() is false: whether it should measure.
  bool done() const { return done_.load(std::memory_order_relaxed); }
  bool StartRun();
  void Record(const Plan& plan, int32_t instruction, int64_t nanos, bool took_crew, int concurrency);
  // After a run that measured; the last of them finds the stages.
  void EndRun(const Plan& plan);

  Forks() = default;
  ~Forks() { delete stages_.load(); }

 private:
  struct Sum {
    std::atomic<int64_t> nanos{0};
    std::atomic<int64_t> serial_nanos{0};
  };
  std::atomic<bool> done_{false};
  std::atomic<int> started_{0};
  std::atomic<int> ended_{0};
  std::once_flag sums_made_;
  std::unique_ptr<Sum[]> sums_;  // by instruction
  std::atomic<const std::vector<std::vector<Stage>>*> stages_{nullptr};
};

}  // namespace thalweg
