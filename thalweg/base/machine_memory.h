// How much memory this process can have.
#pragma once

#include <cstdint>

namespace thalweg {

// The machine's memory in bytes, or less if the control group of the process has a
// limit. Looked up at the first call.
uint64_t MachineMemoryBytes();

}  // namespace thalweg
