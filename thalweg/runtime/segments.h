// The order in which a plan's code runs.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "thalweg/runtime/plan.h"

namespace thalweg {

// What the planner puts in order: a node, or a whole loop.
struct Unit {
  Node* node = nullptr;
  int loop = -1;  // frame id
  LoopPlan* plan = nullptr;
  std::vector<int> before;  // units that must come first, without repeats
  std::vector<int> after;
  bool may_be_dead = false;
  bool waits = false;
  bool no_code = false;  // a constant, an argument, an alias
  int segment = -1;
  int wait = -1;                     // among the plan's waits
  int32_t code = -1;                 // its instruction, once emitted
  std::vector<int32_t> code_before;  // if it has none: the instructions it depends on, once it was passed
  std::shared_ptr<Kernel> kernel;
};

// Gives every unit its segment, and the plan its segments and what each waits
// for. `order` is topological.
void FindSegments(std::vector<Unit>& units, const std::vector<int>& order, Plan& plan);

// The order of code: segment by segment; inside one, waits are started and
// sends made as early as can be, updates of variables as late.
std::vector<int> Schedule(const std::vector<Unit>& units, int num_segments);

}  // namespace thalweg
