// SPDX-License-Identifier: Apache-2.0
// A limit for the memory of strings. Their characters come from malloc and not from the pool of tensors, whose limit
// they would escape.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg {

// To be called before a string of `bytes` characters is made from others, as by copying it. Throws OutOfMemory if this
// process would then take more than 7/8 of the machine's memory. It looks once per 16 MB and thread, so a call costs a
// few nanoseconds. Thread-safe.
void ReserveStringMemory(size_t bytes);

// Tests lower the limit. 0: that of the machine.
void LimitStringMemory(uint64_t bytes);

}  // namespace thalweg
