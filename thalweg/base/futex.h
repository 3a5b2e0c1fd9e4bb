// SPDX-License-Identifier: Apache-2.0
// Linux futexes: sleep until another thread changes a word and wakes the sleepers.
#pragma once

#include <atomic>
#include <cstdint>

namespace thalweg {

// Whose threads use the word: those of one process, or of all that map its memory.
enum class FutexScope { kProcess, kSharedMemory };

// Sleeps until woken, for at most `nanos` nanoseconds if that is not negative. Returns at once if `word` does not have
// `value`. May return early for no reason. False if the time is over.
bool FutexWait(const std::atomic<uint32_t>& word, uint32_t value, int64_t nanos = -1,
               FutexScope scope = FutexScope::kProcess);

// Wakes at most `threads` of the sleepers, the first to sleep first.
void FutexWake(const std::atomic<uint32_t>& word, int threads, FutexScope scope = FutexScope::kProcess);

}  // namespace thalweg
