// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/machine_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace thalweg {

uint64_t MachineMemoryBytes() {
  static const uint64_t bytes = [] {
    uint64_t least = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    // The control group's limit, of either version, as a container sees it.
    for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
      std::ifstream file(path);
      if (uint64_t limit = 0; file >> limit) least = std::min(least, limit);  // "max" is not a number and is ignored
    }
    return least;
  }();
  return bytes;
}

}  // namespace thalweg
