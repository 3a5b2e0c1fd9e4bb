// SPDX-License-Identifier: Apache-2.0
// Random identifiers that are unique across processes.
#pragma once

#include <cstdint>
#include <string>

namespace thalweg {

int64_t NewRequestId();   // never 0
int64_t NewStepId();      // 57 bits, never negative
std::string NewHandle();  // 16 hex digits that cannot be guessed, for sessions and graphs

}  // namespace thalweg
