// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/string_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "thalweg/base/exception_boundary.h"
#include "thalweg/base/machine_memory.h"

namespace thalweg {
namespace {

constexpr int64_t kLookEvery = int64_t{16} << 20;
// Of malloc, and of the object in its tensor.
constexpr size_t kStringOverhead = 48;

std::atomic<uint64_t> string_limit{0};
thread_local int64_t bytes_until_look = 0;

// 0 if it is not known. Without a stream: this is called when memory is short.
uint64_t ResidentMemory() {
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[128];
  const ssize_t n = read(file, text, sizeof(text) - 1);
  close(file);
  if (n <= 0) return 0;
  text[n] = '\0';
  char* rest = nullptr;
  std::strtoull(text, &rest, 10);  // the first number is the address space, the second the resident set
  return std::strtoull(rest, nullptr, 10) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

void LimitStringMemory(uint64_t bytes) { string_limit.store(bytes, std::memory_order_relaxed); }

void ReserveStringMemory(size_t bytes) {
  bytes_until_look -= static_cast<int64_t>(std::min(bytes, size_t{1} << 62) + kStringOverhead);
  if (bytes_until_look >= 0) return;
  bytes_until_look = 0;  // an error is not the last one
  uint64_t limit = string_limit.load(std::memory_order_relaxed);
  if (limit == 0) limit = MachineMemoryBytes() / 8 * 7;
  const uint64_t resident = ResidentMemory();
  if (resident > limit || bytes > limit - resident) {
    throw OutOfMemory(absl::StrCat("no memory for a string of ", bytes, " bytes: the process takes ", resident,
                                   " bytes, and the limit is ", limit));
  }
  bytes_until_look = kLookEvery;
}

}  // namespace thalweg
