// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/request_id.h"

#include <sys/random.h>

#include <utility>

#include "absl/strings/str_format.h"

namespace thalweg {
namespace {

// Uses the system's random source, so that the next number cannot be predicted from earlier
// ones. Fetches numbers for several calls at once, because every step needs one.
uint64_t Random64() {
  constexpr size_t kAtOnce = 32;  // getrandom() is never interrupted up to 256 bytes
  thread_local uint64_t numbers[kAtOnce];
  thread_local size_t left = 0;
  while (left == 0) {
    if (getrandom(numbers, sizeof(numbers), 0) == sizeof(numbers)) left = kAtOnce;
  }
  return std::exchange(numbers[--left], 0);
}

}  // namespace

int64_t NewRequestId() { return static_cast<int64_t>(Random64() | 1); }
int64_t NewStepId() { return static_cast<int64_t>(Random64() & ((uint64_t{1} << 57) - 1)); }
std::string NewHandle() { return absl::StrFormat("%016x", Random64()); }

}  // namespace thalweg
