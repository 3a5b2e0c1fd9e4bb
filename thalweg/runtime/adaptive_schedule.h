// Where a plan runs on two threads at once.
//
// Straight-line code is cheapest on one thread; a hop to another costs several
// microseconds, and many more if that thread sleeps. So the first steps measure
// what every instruction takes, with the help of the device's pool and alone, and
// then the code is cut into stages: runs of it that are either serial, with help
// or without, or two lanes that do not depend on each other and have enough to
// do, both of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "thalweg/runtime/plan.h"

namespace thalweg {

// Instructions to run one after the other and, beside them, others. Slots that
// both lanes read are emptied when both are done.
struct Stage {
  std::vector<Instruction> first;
  std::vector<Instruction> second;  // empty: a serial stage
  bool alone = false;               // the pool's help is not worth its price
  std::vector<int32_t> frees;
};

struct InstructionCost {
  // What takes so long with the pool's help keeps it, whatever was measured: the
  // machine may have been busy then.
  static constexpr double kLongNanos = 100'000;

  double nanos = 0;         // with the help of other threads, if it asks for it
  double serial_nanos = 0;  // without
  bool used_pool = false;   // it asks for it
};

// The stages of code [begin, end) of a plan; empty if it should run as it is.
// AdaptiveSchedule where both lanes have at least `min_lane_nanos` and the lanes together
// are faster than the code one after the other.
std::vector<Stage> FindStages(const Plan& plan, int32_t begin, int32_t end, absl::Span<const InstructionCost> costs,
                              double min_lane_nanos = 50'000);

// What a plan has learnt. Thread-safe.
class AdaptiveSchedule {
 public:
  static constexpr int kWarmUpRuns = 4;
  static constexpr int kMeasuredRuns = 16;

  // What a run measures.
  enum class Measure { kNothing, kWithPool, kSerial };

  // Stages by segment, once they are known; nullptr before, and if code runs best
  // as it is.
  const std::vector<std::vector<Stage>>* stages() const { return stages_.load(std::memory_order_acquire); }

  // Asked by every run as long as done() is false.
  bool done() const { return done_.load(std::memory_order_relaxed); }
  Measure StartRun();
  // Whether this run should do without the pool here. Long work always has its
  // help, and is not made longer to learn how long.
  bool Alone(Measure measure, int32_t instruction) const;
  void Record(const Plan& plan, int32_t instruction, bool alone, int64_t nanos, bool used_pool, int concurrency);
  // After a run that measured; the last of them finds the stages.
  void EndRun(const Plan& plan);

  AdaptiveSchedule() = default;
  ~AdaptiveSchedule() {
    delete stages_.load();
    delete[] bests_.load();
  }

 private:
  // The fastest of the runs: others met something else.
  struct Best {
    static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
    std::atomic<int64_t> nanos{kNone};
    std::atomic<int64_t> serial_nanos{kNone};
    std::atomic<bool> used_pool{false};

    InstructionCost Cost() const;
  };
  Best* Bests(const Plan& plan);

  std::atomic<bool> done_{false};
  std::atomic<int> started_{0};
  std::atomic<int> ended_{0};
  std::atomic<Best*> bests_{nullptr};  // by instruction; owned, made when something is recorded
  std::atomic<const std::vector<std::vector<Stage>>*> stages_{nullptr};
};

}  // namespace thalweg
