// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/slot_lifetimes.h"

#include <algorithm>

namespace thalweg {
namespace {

struct Use {
  int32_t last = -1;  // instruction that reads it last
  int32_t producer = -1;
  int segment = -1;  // the segment that reads it
  bool shared = false;
  bool keep = false;
  bool constant = false;
};

std::vector<int> SegmentOfCode(const Plan& plan) {
  std::vector<int> segments(plan.code.size());
  for (size_t s = 0; s < plan.segments.size(); ++s) {
    for (int32_t at = plan.segments[s].begin; at < plan.segments[s].end; ++at) segments[at] = static_cast<int>(s);
  }
  return segments;
}

std::vector<Use> FindUses(const SlotLifetimes& lives, const Plan& plan) {
  std::vector<Use> uses(plan.num_slots);
  const std::vector<int> segment_of = SegmentOfCode(plan);
  const auto read = [&](OperandRange range, int32_t at) {
    for (int i = 0; i < range.count; ++i) {
      Use& use = uses[plan.at(range)[i]];
      if (use.segment >= 0 && use.segment != segment_of[at]) use.shared = true;
      use.segment = segment_of[at];
      use.last = at;
    }
  };
  for (int32_t at = 0; at < static_cast<int32_t>(plan.code.size()); ++at) {
    const Instruction& in = plan.code[at];
    for (const OperandRange range : {in.inputs, in.reads, in.dead_if}) read(range, at);
    for (int i = 0; i < in.call.num_outputs; ++i) uses[in.call.first_output + i].producer = at;
    if (in.loop != nullptr) {
      for (const LoopPlan::Move& exit : in.loop->exits) uses[exit.to].producer = at;
    }
  }
  for (const int32_t slot : lives.kept) uses[slot].keep = true;
  for (const int32_t slot : lives.constants) uses[slot].constant = true;
  return uses;
}

}  // namespace

void FindSlotLifetimes(const SlotLifetimes& lives, Plan& plan) {
  const std::vector<Use> uses = FindUses(lives, plan);
  std::vector<std::vector<int32_t>> frees(plan.code.size());
  for (int32_t slot = 0; slot < plan.num_slots; ++slot) {
    const Use& use = uses[slot];
    if (use.constant) continue;
    // A value without readers dies after its producer.
    const int32_t end = use.last >= 0 ? use.last : use.producer;
    if (use.keep || use.shared || end < 0) {
      plan.kept_slots.push_back(slot);
    } else {
      frees[end].push_back(slot);
    }
  }
  for (size_t at = 0; at < plan.code.size(); ++at) {
    Instruction& in = plan.code[at];
    const int32_t* const inputs = plan.at(in.inputs);
    for (int i = 0; i < in.inputs.count && i < 32 && in.loop == nullptr; ++i) {
      const bool dies = std::find(frees[at].begin(), frees[at].end(), inputs[i]) != frees[at].end();
      // An input given twice is not dead after its first use.
      const bool twice = std::count(inputs, inputs + in.inputs.count, inputs[i]) > 1;
      if (dies && !twice) in.call.last_use |= 1u << i;
    }
    in.frees = plan.AddOperands(frees[at]);
  }
}

}  // namespace thalweg
