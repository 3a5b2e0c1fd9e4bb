// SPDX-License-Identifier: Apache-2.0
// For tests: whether threads wait, or look for something again and again.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace thalweg {

// True if no other thread of this process runs now. A thread that waits for a processor counts as running, so the load
// of the machine does not matter.
inline bool OtherThreadsSleep() {
  const std::string own = std::to_string(gettid());
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    if (thread.path().filename() == own) continue;
    std::ifstream file(thread.path() / "stat");  // "17 (name) S ..."; empty if the thread has ended
    std::string stat;
    std::getline(file, stat);
    const size_t name_end = stat.rfind(") ");
    if (name_end != std::string::npos && stat.compare(name_end + 2, 1, "R") == 0) return false;
  }
  return true;
}

// Waits until the other threads of this process have come to rest: they sleep whenever they are looked at, 100 times in
// a row. Returns false on timeout: then one of them is busy all the time.
inline bool AwaitRest(absl::Duration timeout = absl::Seconds(30)) {
  const absl::Time deadline = absl::Now() + timeout;
  for (int asleep = 0; asleep < 100;) {
    asleep = OtherThreadsSleep() ? asleep + 1 : 0;
    if (absl::Now() > deadline) return false;
  }
  return true;
}

}  // namespace thalweg
