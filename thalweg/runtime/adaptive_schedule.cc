// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/adaptive_schedule.h"

#include <algorithm>
#include <utility>

namespace thalweg {
namespace {

// Greedy search. From each instruction on, it tries to grow two lanes: an instruction that
// depends on one lane joins it, one that depends on neither joins the shorter lane, and one
// that depends on both ends the fork. Of all possible ends, the one that saves most time is
// taken. If none saves time, the instruction is serial, and the search continues after it.
class StageFinder {
 public:
  StageFinder(const Plan& plan, int32_t begin, int32_t end, absl::Span<const InstructionCost> costs,
              double min_lane_nanos)
      : plan_(plan), begin_(begin), end_(end), costs_(costs), min_lane_nanos_(min_lane_nanos), lane_(end - begin, -1) {}

  std::vector<Stage> Run() {
    std::vector<Stage> stages;
    bool as_it_is = true;
    for (int32_t at = begin_; at < end_;) {
      const int32_t fork_end = Grow(at);
      if (fork_end > at) {
        stages.push_back(Fork(at, fork_end));
        as_it_is = false;
        at = fork_end;
        continue;
      }
      const bool serial = costs_[at].used_pool && !Helps(costs_[at]);
      as_it_is = as_it_is && !serial;
      // Instructions that do not use the pool fit into any serial stage.
      if (stages.empty() || !stages.back().second.empty() || (costs_[at].used_pool && stages.back().serial != serial)) {
        stages.emplace_back().serial = serial;
      }
      stages.back().first.push_back(plan_.code[at++]);
    }
    return as_it_is ? std::vector<Stage>() : stages;
  }

 private:
  static constexpr int32_t kMaxStage = 128;         // instructions
  static constexpr double kLeastHelpNanos = 2'000;  // the least that using the pool must save

  static bool Helps(const InstructionCost& cost) {
    return cost.nanos >= InstructionCost::kLongNanos || cost.serial_nanos - cost.nanos >= kLeastHelpNanos;
  }
  static double Nanos(const InstructionCost& cost) { return Helps(cost) ? cost.nanos : cost.serial_nanos; }

  // The end of the best fork that starts at `first`; `first` if no fork pays. Fills lane_ for
  // the instructions in between.
  int32_t Grow(int32_t first) {
    const int32_t limit = std::min(end_, first + kMaxStage);
    double serial_nanos[2] = {0, 0};
    double nanos = 0, best_gain = 0;
    int32_t best_end = first, at = first;
    for (; at < limit && !plan_.code[at].async; ++at) {
      const int lane = LaneFor(first, at, serial_nanos);
      if (lane < 0) break;
      lane_[at - begin_] = lane;
      serial_nanos[lane] += costs_[at].serial_nanos;
      nanos += Nanos(costs_[at]);
      // The hand-over itself costs about half of the least that a lane must do.
      const double gain = nanos - std::max(serial_nanos[0], serial_nanos[1]) - min_lane_nanos_ / 2;
      if (std::min(serial_nanos[0], serial_nanos[1]) >= min_lane_nanos_ && gain > best_gain) {
        best_gain = gain;
        best_end = at + 1;
      }
    }
    return best_end;
  }

  int LaneFor(int32_t first, int32_t at, const double* serial_nanos) const {
    bool needs[2] = {false, false};
    for (const int32_t other : plan_.before[at]) {
      if (other >= first && other < at) needs[lane_[other - begin_]] = true;
    }
    if (needs[0] && needs[1]) return -1;
    if (needs[0]) return 0;
    if (needs[1]) return 1;
    return serial_nanos[0] <= serial_nanos[1] ? 0 : 1;
  }

  Stage Fork(int32_t first, int32_t fork_end) const {
    // Slots that both lanes read: neither may take or empty them.
    std::vector<uint8_t> readers(plan_.num_slots, 0);
    const auto read = [&](OperandRange range, int lane) {
      for (int i = 0; i < range.count; ++i) readers[plan_.at(range)[i]] |= 1 << lane;
    };
    for (int32_t at = first; at < fork_end; ++at) {
      const Instruction& in = plan_.code[at];
      for (const OperandRange range : {in.inputs, in.reads, in.dead_if}) read(range, lane_[at - begin_]);
    }
    Stage stage;
    for (int32_t at = first; at < fork_end; ++at) {
      Instruction in = plan_.code[at];
      for (int i = 0; i < in.inputs.count && i < 32; ++i) {
        if (readers[plan_.at(in.inputs)[i]] == 3) in.call.last_use &= ~(1u << i);
      }
      const int32_t* frees = plan_.at(in.frees);
      if (std::any_of(frees, frees + in.frees.count, [&](int32_t slot) { return readers[slot] == 3; })) {
        stage.frees.insert(stage.frees.end(), frees, frees + in.frees.count);
        in.frees.count = 0;
      }
      (lane_[at - begin_] == 0 ? stage.first : stage.second).push_back(in);
    }
    return stage;
  }

  const Plan& plan_;
  const int32_t begin_;
  const int32_t end_;
  const absl::Span<const InstructionCost> costs_;
  const double min_lane_nanos_;
  std::vector<int> lane_;  // by instruction: its lane in the current fork
};

}  // namespace

std::vector<Stage> FindStages(const Plan& plan, int32_t begin, int32_t end, absl::Span<const InstructionCost> costs,
                              double min_lane_nanos) {
  return StageFinder(plan, begin, end, costs, min_lane_nanos).Run();
}

InstructionCost AdaptiveSchedule::Best::Cost() const {
  int64_t with_pool = nanos.load(std::memory_order_relaxed), serial = serial_nanos.load(std::memory_order_relaxed);
  const bool helped = used_pool.load(std::memory_order_relaxed);
  if (!helped) with_pool = serial = std::min(with_pool, serial);
  if (serial == kNone) serial = with_pool;
  if (with_pool == kNone) return {};  // dead in these runs
  return {static_cast<double>(with_pool), static_cast<double>(serial), helped};
}

AdaptiveSchedule::Measure AdaptiveSchedule::StartRun() {
  const int run = started_.fetch_add(1, std::memory_order_relaxed) - kWarmUpRuns;
  if (run < 0 || run >= kMeasuredRuns) return Measure::kNothing;
  return run % 2 == 0 ? Measure::kWithPool : Measure::kSerial;
}

bool AdaptiveSchedule::RunsSerially(Measure measure, int32_t instruction) const {
  if (measure != Measure::kSerial) return false;
  const Best* const bests = bests_.load(std::memory_order_acquire);
  return bests != nullptr &&
         static_cast<double>(bests[instruction].nanos.load(std::memory_order_relaxed)) < InstructionCost::kLongNanos;
}

AdaptiveSchedule::Best* AdaptiveSchedule::Bests(const Plan& plan) {
  Best* known = bests_.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  auto made = std::make_unique<Best[]>(plan.code.size());
  if (bests_.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) return made.release();
  return known;  // another run has allocated it
}

void AdaptiveSchedule::Record(const Plan& plan, int32_t instruction, bool serial, int64_t nanos, bool used_pool,
                              int concurrency) {
  const auto lower = [](std::atomic<int64_t>& fastest, int64_t nanos) {
    int64_t before = fastest.load(std::memory_order_relaxed);
    while (nanos < before && !fastest.compare_exchange_weak(before, nanos, std::memory_order_relaxed)) {
    }
  };
  Best& best = Bests(plan)[instruction];
  lower(serial ? best.serial_nanos : best.nanos, nanos);
  if (!used_pool) return;
  best.used_pool.store(true, std::memory_order_relaxed);
  if (static_cast<double>(nanos) >= InstructionCost::kLongNanos) lower(best.serial_nanos, nanos * concurrency);
}

void AdaptiveSchedule::EndRun(const Plan& plan) {
  if (ended_.fetch_add(1, std::memory_order_acq_rel) + 1 != kMeasuredRuns) return;
  std::vector<InstructionCost> costs(plan.code.size());
  const Best* const bests = bests_.load(std::memory_order_acquire);  // nullptr if every run failed immediately
  for (size_t i = 0; i < costs.size() && bests != nullptr; ++i) costs[i] = bests[i].Cost();
  auto stages = std::make_unique<std::vector<std::vector<Stage>>>();
  bool any = false;
  for (const Segment& segment : plan.segments) {
    stages->push_back(FindStages(plan, segment.begin, segment.end, costs));
    any = any || !stages->back().empty();
  }
  if (any) stages_.store(stages.release(), std::memory_order_release);
  done_.store(true, std::memory_order_release);
}

}  // namespace thalweg
