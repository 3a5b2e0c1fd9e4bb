// SPDX-License-Identifier: Apache-2.0
// Determines which instruction is the last to use each value.
#pragma once

#include <cstdint>
#include <vector>

#include "thalweg/runtime/plan.h"

namespace thalweg {

struct SlotLifetimes {
  std::vector<int32_t> kept;       // results and loop variables: emptied at the end of the plan
  std::vector<int32_t> constants;  // never emptied
};

// Sets `frees` and `last_use` of the instructions, and the slots that the plan empties
// at its end.
//
// A slot that only one segment reads is emptied after its last reader there. A slot that
// several segments read, or that leaves the plan, is kept until the end.
void FindSlotLifetimes(const SlotLifetimes& lives, Plan& plan);

}  // namespace thalweg
