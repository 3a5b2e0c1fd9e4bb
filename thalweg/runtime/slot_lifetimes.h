// Which values die with which instruction.
#pragma once

#include <cstdint>
#include <vector>

#include "thalweg/runtime/plan.h"

namespace thalweg {

struct SlotLifetimes {
  std::vector<int32_t> kept;       // leave the plan, or come round: emptied when it ends
  std::vector<int32_t> constants;  // never emptied
};

// Fills what instructions free and what their last uses are, and the slots
// that the plan empties in the end.
//
// A slot that is read in one segment only dies with its last reader there. One
// that several segments read, or that leaves the plan, is kept to the end.
void FindSlotLifetimes(const SlotLifetimes& lives, Plan& plan);

}  // namespace thalweg
