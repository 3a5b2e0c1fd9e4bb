// Random numbers that name things across processes.
#pragma once

#include <cstdint>
#include <string>

namespace thalweg {

int64_t NewRequestId();   // never 0
int64_t NewStepId();      // 57 bits, never negative
std::string NewHandle();  // 16 hex digits: sessions and graphs. Nobody can guess one.

}  // namespace thalweg
