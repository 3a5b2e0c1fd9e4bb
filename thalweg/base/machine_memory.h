// SPDX-License-Identifier: Apache-2.0
// How much memory this process may use.
#pragma once

#include <cstdint>

namespace thalweg {

// The machine's memory in bytes, or the limit of the process's control group if that
// is lower. The first call reads it, later calls return the same value.
uint64_t MachineMemoryBytes();

}  // namespace thalweg
