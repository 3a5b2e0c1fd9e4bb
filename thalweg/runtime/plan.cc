// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/plan.h"

#include "thalweg/runtime/adaptive_schedule.h"

namespace thalweg {

Plan::Plan() : schedule(std::make_unique<AdaptiveSchedule>()) {}
Plan::~Plan() = default;

OperandRange Plan::AddOperands(const std::vector<int32_t>& list) {
  const OperandRange range{static_cast<int32_t>(operands.size()), static_cast<int32_t>(list.size())};
  operands.insert(operands.end(), list.begin(), list.end());
  return range;
}

void Plan::BindCalls() {
  for (Instruction& in : code) {
    in.call.inputs = at(in.inputs);
    in.call.num_inputs = in.inputs.count;
  }
}

PlanFrame::PlanFrame(const Plan& plan) : slots(plan.num_slots) {
  for (const auto& [slot, value] : plan.constants) slots[slot].tensor = value;
  for (const auto& loop : plan.loops) loops.push_back(std::make_unique<PlanFrame>(loop->body));
}

Executable::~Executable() { delete last_frame_.load(); }

std::unique_ptr<PlanFrame> Executable::TakeFrame() {
  if (PlanFrame* frame = last_frame_.exchange(nullptr, std::memory_order_acquire))
    return std::unique_ptr<PlanFrame>(frame);
  {
    MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<PlanFrame> frame = std::move(idle_.back());
      idle_.pop_back();
      return frame;
    }
  }
  return std::make_unique<PlanFrame>(plan);
}

void Executable::ReturnFrame(std::unique_ptr<PlanFrame> frame) {
  PlanFrame* expected = nullptr;
  if (last_frame_.compare_exchange_strong(expected, frame.get(), std::memory_order_release)) {
    frame.release();
    return;
  }
  MutexLock lock(&mutex_);
  if (idle_.size() < kMaxIdleFrames) idle_.push_back(std::move(frame));
}

}  // namespace thalweg
