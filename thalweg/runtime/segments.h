// SPDX-License-Identifier: Apache-2.0
// The order in which a plan's code runs.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "thalweg/runtime/plan.h"

namespace thalweg {

// A unit of scheduling: a node, or a whole loop.
struct Unit {
  Node* node = nullptr;
  int loop = -1;  // frame id
  LoopPlan* plan = nullptr;
  std::vector<int> before;  // units that must come first, without duplicates
  std::vector<int> after;
  bool may_be_dead = false;
  bool waits = false;
  bool no_code = false;  // a constant, an argument, an alias
  int segment = -1;
  int wait = -1;                     // index among the plan's waits
  int32_t code = -1;                 // index of its instruction, once emitted
  std::vector<int32_t> code_before;  // without an instruction: the instructions it depends on, once visited
  std::shared_ptr<Kernel> kernel;
};

// Assigns every unit to a segment, and fills the plan's segments with their predecessors
// and successors. `order` is topological.
void FindSegments(std::vector<Unit>& units, const std::vector<int>& order, Plan& plan);

// Returns the order of the code: segment by segment. Inside a segment, waits and sends
// come as early as possible, writes of files late, and updates of variables as late as possible.
std::vector<int> Schedule(const std::vector<Unit>& units, int num_segments);

}  // namespace thalweg
