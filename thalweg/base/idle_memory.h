// SPDX-License-Identifier: Apache-2.0
// Returns memory that a process no longer needs to the system. The definition is in memory.cc.
#pragma once

#include "absl/time/time.h"

namespace thalweg {

// Gives the tensor memory back that was free since the previous call: blocks of more than 64 KB of HostAllocator(), and
// memory of ExportedMemory::Global(). Does nothing if the previous call was less than `idle` ago. Servers call it
// regularly, so that one that once needed much memory does not keep it. Thread-safe.
void TrimIdleMemory(absl::Duration idle);

}  // namespace thalweg
