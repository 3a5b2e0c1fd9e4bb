// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

namespace thalweg {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

int Flags(FutexScope scope) { return scope == FutexScope::kProcess ? FUTEX_PRIVATE_FLAG : 0; }

}  // namespace

bool FutexWait(const std::atomic<uint32_t>& word, uint32_t value, int64_t nanos, FutexScope scope) {
  timespec timeout{.tv_sec = nanos / kNanosPerSecond, .tv_nsec = nanos % kNanosPerSecond};
  return syscall(SYS_futex, &word, FUTEX_WAIT | Flags(scope), value, nanos < 0 ? nullptr : &timeout, nullptr, 0) == 0 ||
         errno != ETIMEDOUT;
}

void FutexWake(const std::atomic<uint32_t>& word, int threads, FutexScope scope) {
  syscall(SYS_futex, &word, FUTEX_WAKE | Flags(scope), threads, nullptr, nullptr, 0);
}

}  // namespace thalweg
