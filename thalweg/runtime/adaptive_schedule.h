// SPDX-License-Identifier: Apache-2.0
// Decides which parts of a plan run on two threads.
//
// Straight-line code is cheapest on one thread. A hop to another thread costs several
// microseconds, and more if that thread sleeps. The first steps therefore measure how
// long each instruction takes with and without the device's pool. Then the code is cut
// into stages. A stage is either serial, with or without the pool, or consists of two
// lanes that do not depend on each other and both have enough work.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "thalweg/runtime/plan.h"

namespace thalweg {

// One or two lanes of instructions; each lane runs serially. Slots that both lanes read
// are emptied when both are done.
struct Stage {
  std::vector<Instruction> first;
  std::vector<Instruction> second;  // empty: a serial stage
  bool serial = false;              // run without the pool, because waking it costs more than it saves
  std::vector<int32_t> frees;
};

struct InstructionCost {
  // An instruction that takes this long with the pool keeps using it, whatever was
  // measured without: the machine may have been busy during the measurement.
  static constexpr double kLongNanos = 100'000;

  double nanos = 0;         // with the pool, if the instruction uses it
  double serial_nanos = 0;  // without the pool
  bool used_pool = false;
};

// Divides instructions [begin, end) of a plan into stages. Empty if the code should run
// serially. A stage gets two lanes only if each has at least `min_lane_nanos` of work
// and the two together are faster than serial code.
std::vector<Stage> FindStages(const Plan& plan, int32_t begin, int32_t end, absl::Span<const InstructionCost> costs,
                              double min_lane_nanos = 50'000);

// The measurements of a plan, and the stages found from them. Thread-safe.
class AdaptiveSchedule {
 public:
  static constexpr int kWarmUpRuns = 4;
  static constexpr int kMeasuredRuns = 16;

  // Measurements of one run of the plan.
  enum class Measure { kNothing, kWithPool, kSerial };

  // Stages by segment. nullptr until they are known, and if serial code is best.
  const std::vector<std::vector<Stage>>* stages() const { return stages_.load(std::memory_order_acquire); }

  // True when all measurements are made. Until then, every run calls StartRun().
  bool done() const { return done_.load(std::memory_order_relaxed); }
  Measure StartRun();
  // Whether this run executes the instruction without the pool. Long instructions always
  // use the pool, so that measuring does not slow them down.
  bool RunsSerially(Measure measure, int32_t instruction) const;
  void Record(const Plan& plan, int32_t instruction, bool serial, int64_t nanos, bool used_pool, int concurrency);
  // Called after a run that measured. The last such run computes the stages.
  void EndRun(const Plan& plan);

  AdaptiveSchedule() = default;
  ~AdaptiveSchedule() {
    delete stages_.load();
    delete[] bests_.load();
  }

 private:
  // The fastest of the measured runs; slower ones were disturbed by other work.
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
  std::atomic<Best*> bests_{nullptr};  // by instruction; owned, allocated by the first Record()
  std::atomic<const std::vector<std::vector<Stage>>*> stages_{nullptr};
};

}  // namespace thalweg
