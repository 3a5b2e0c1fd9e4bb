// SPDX-License-Identifier: Apache-2.0
// Recognises calls that come twice.
#pragma once

#include <cstdint>
#include <vector>

namespace thalweg {

// Callers number their calls one by one, but send them in a slightly different order. Remembers the last
// kCalls numbers. Not thread-safe.
class CallWindow {
 public:
  // False if the call has come before, or is so old that this is not known.
  bool Add(uint64_t call) {
    if (seen_.empty()) seen_.resize(kCalls);
    if (call > last_) {
      if (call - last_ >= kCalls) seen_.assign(kCalls, false);
      for (uint64_t i = last_ + 1; i < call && call - last_ < kCalls; ++i) seen_[i % kCalls] = false;
      last_ = call;
    } else if (last_ - call >= kCalls || seen_[call % kCalls]) {
      return false;
    }
    seen_[call % kCalls] = true;
    return true;
  }

 private:
  static constexpr uint64_t kCalls = 64 << 10;
  uint64_t last_ = 0;
  std::vector<bool> seen_;
};

}  // namespace thalweg
