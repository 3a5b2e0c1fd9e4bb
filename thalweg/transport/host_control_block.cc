// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/host_control_block.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <thread>

#include "absl/time/clock.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/futex.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

// Waking a thread costs 30 to 60 us, so shorter waits spin.
constexpr int64_t kSpinNanos = 50'000;
// Sleeping members check their condition at least this often, even if a wake-up is lost.
constexpr absl::Duration kNap = absl::Milliseconds(200);
// A live member holds the lock for less than a microsecond.
constexpr absl::Duration kLockTimeout = absl::Seconds(5);

void Sleep(std::atomic<uint32_t>& word, uint32_t value, absl::Duration timeout) {
  FutexWait(word, value, absl::ToInt64Nanoseconds(timeout), FutexScope::kSharedMemory);
}

void WakeAll(std::atomic<uint32_t>& word) { FutexWake(word, INT_MAX, FutexScope::kSharedMemory); }

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

size_t HostControlBlock::Bytes(int ranks) {
  return kHeadBytes + kLine * ranks + kSlots * kLine * (1 + ranks) + static_cast<size_t>(kSlots) * ranks * kInlineBytes;
}

absl::StatusOr<std::unique_ptr<HostControlBlock>> HostControlBlock::Create(int ranks) {
  ASSIGN_OR_RETURN(std::shared_ptr<SharedMemory> memory, SharedMemory::Create(Bytes(ranks)));
  return std::unique_ptr<HostControlBlock>(new HostControlBlock(std::move(memory), ranks));
}

absl::StatusOr<std::unique_ptr<HostControlBlock>> HostControlBlock::Of(std::shared_ptr<SharedMemory> memory,
                                                                       int ranks) {
  if (memory->bytes() < Bytes(ranks)) {
    return InvalidArgument("The control block of a group of ", ranks, " members has ", memory->bytes(),
                           " bytes, expected ", Bytes(ranks));
  }
  return std::unique_ptr<HostControlBlock>(new HostControlBlock(std::move(memory), ranks));
}

int HostControlBlock::Search(uint64_t start, uint64_t key) const {
  for (int i = 0; i < kSlots; ++i) {
    const int at = static_cast<int>((start + i) % kSlots);
    if (slot(at).key.load(std::memory_order_acquire) == key) return at;
  }
  return -1;
}

int HostControlBlock::FindSlot(uint64_t key) {
  // The lock makes all members choose the same slot. If its holder dies, the group fails soon.
  std::atomic<uint32_t>& lock = head().lock;
  const absl::Time give_up = absl::Now() + kLockTimeout;
  for (uint32_t expected = 0; !lock.compare_exchange_weak(expected, 1, std::memory_order_acquire); expected = 0) {
    if (failed()) return -1;
    if (absl::Now() > give_up) {
      Fail(Unavailable("A member of the group died or hung while it held the lock of the control block"), 0);
      return -1;
    }
    std::this_thread::yield();
  }
  int found = Search(key, key);
  if (found < 0) {
    found = Search(key, 0);
    if (found >= 0) {
      Slot& taken = slot(found);
      for (int rank = 0; rank < ranks_; ++rank)
        entry(found, rank).state.store(Entry::kAbsent, std::memory_order_relaxed);
      taken.arrived.store(0, std::memory_order_relaxed);
      taken.finished.store(0, std::memory_order_relaxed);
      taken.left.store(0, std::memory_order_relaxed);
      taken.key.store(key, std::memory_order_release);
    }
  }
  lock.store(0, std::memory_order_release);
  return found;
}

bool HostControlBlock::Abandon(int i) {
  std::atomic<uint32_t>& arrived = slot(i).arrived;
  for (uint32_t seen = arrived.load(std::memory_order_acquire); seen != static_cast<uint32_t>(ranks_);) {
    if (arrived.compare_exchange_weak(seen, seen | kAbandoned, std::memory_order_acq_rel)) return true;
  }
  return false;
}

// Members that wait for a free slot check for one when their doorbell rings, and after kNap.
void HostControlBlock::LeaveSlot(int i) {
  Slot& s = slot(i);
  if (s.left.fetch_add(1, std::memory_order_acq_rel) + 1 != static_cast<uint32_t>(ranks_)) return;
  s.key.store(0, std::memory_order_release);
}

void HostControlBlock::Ring(int rank) {
  Doorbell& b = doorbell(rank);
  b.rung.fetch_add(1, std::memory_order_seq_cst);
  if (b.sleepers.load(std::memory_order_seq_cst) != 0) WakeAll(b.rung);
}

void HostControlBlock::RingAll() {
  for (int rank = 0; rank < ranks_; ++rank) Ring(rank);
}

void HostControlBlock::Wait(int rank, bool spin, absl::Time deadline, absl::FunctionRef<bool()> ready) {
  if (ready()) return;
  if (spin) {
    for (const int64_t end = NowNanos() + kSpinNanos; NowNanos() < end;) {
      for (int i = 0; i < 20; ++i) Pause();
      if (ready()) return;
    }
  }
  Doorbell& b = doorbell(rank);
  b.sleepers.fetch_add(1, std::memory_order_seq_cst);
  for (;;) {
    const uint32_t before = b.rung.load(std::memory_order_seq_cst);
    if (ready()) break;
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) break;
    Sleep(b.rung, before, std::min(left, kNap));
  }
  b.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

void HostControlBlock::Fail(const absl::Status& why, int64_t step) {
  Head& h = head();
  if (h.claim.exchange(1, std::memory_order_acq_rel) == 0) {
    const size_t n = std::min(why.message().size(), kMaxMessage - 1);
    std::memcpy(h.reason, why.message().data(), n);
    h.reason[n] = 0;
    h.failed_step.store(step, std::memory_order_relaxed);
    h.failed.store(static_cast<uint32_t>(why.code()), std::memory_order_release);
  }
  if (step == 0) h.lost.store(1, std::memory_order_release);
  RingAll();
}

absl::Status HostControlBlock::status() const {
  const uint32_t code = head().failed.load(std::memory_order_acquire);
  if (code == 0) return absl::OkStatus();
  char reason[kMaxMessage];
  std::memcpy(reason, head().reason, kMaxMessage);
  reason[kMaxMessage - 1] = 0;
  return absl::Status(static_cast<absl::StatusCode>(std::min<uint32_t>(code, 16)), reason);
}

}  // namespace thalweg
