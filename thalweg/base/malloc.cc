// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/malloc.h"

#include <malloc.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "thalweg/base/logging.h"

namespace thalweg {

void ConfigureMalloc() {
  static std::once_flag once;
  std::call_once(once, [] {
    constexpr int kGigabyte = 1 << 30;
    // Each arena keeps what its threads once used, up to 64 MB. By default there may be eight per core.
    const int arenas = 2 * static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    if (mallopt(M_MMAP_THRESHOLD, kGigabyte) != 1 || mallopt(M_TRIM_THRESHOLD, kGigabyte) != 1 ||
        mallopt(M_TOP_PAD, 16 << 20) != 1 || mallopt(M_ARENA_MAX, arenas) != 1) {
      LOG(WARNING) << "malloc does not take its settings: large buffers will cost page faults";
    }
  });
}

}  // namespace thalweg
