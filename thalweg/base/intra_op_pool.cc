// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/intra_op_pool.h"

#include <algorithm>
#include <climits>
#include <exception>

#include "absl/strings/str_cat.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/denormals.h"
#include "thalweg/base/futex.h"
#include "thalweg/base/logging.h"

namespace thalweg {
namespace {

constexpr int64_t kSpinNanos = 20'000;
constexpr int kShardsPerThread = 8;  // several, to balance uneven shards and late helpers
constexpr uint32_t kCallerSleeps = uint32_t{1} << 31;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until `condition` holds, for kSpinNanos at most. Returns whether it does.
template <typename Condition>
bool SpinUntil(Condition condition) {
  const int64_t deadline = NowNanos() + kSpinNanos;
  do {
    for (int i = 0; i < 16; ++i) {
      if (condition()) return true;
      Pause();
    }
  } while (NowNanos() < deadline);
  return false;
}

}  // namespace

IntraOpPool::IntraOpPool(int helpers)
    : concurrency_(helpers + 1),
      spin_(concurrency_ <= AvailableCores()),
      parts_(std::make_unique<Part[]>(std::max(concurrency_, 1))) {
  CHECK(helpers >= 0) << helpers << " helpers";
  for (int i = 0; i < helpers; ++i) {
    helpers_.push_back(std::make_unique<Thread>(absl::StrCat("intra_op_pool/", i), [this, i] { HelperLoop(i + 1); }));
  }
}

IntraOpPool::~IntraOpPool() {
  closing_.store(true, std::memory_order_relaxed);
  signal_.fetch_add(1);  // helpers see closing_ after they see this
  FutexWake(signal_, INT_MAX);
  helpers_.clear();
}

void IntraOpPool::ParallelFor(int64_t n, int64_t grain, absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  if (n <= grain || concurrency_ == 1) return body(0, n);
  int64_t shards = std::min<int64_t>((n - 1) / grain + 1, kShardsPerThread * concurrency_);
  if (shards > concurrency_) shards -= shards % concurrency_;  // parts of the same size
  const int64_t size = n / shards, larger = n % shards;        // the first `larger` shards have one index more
  Run(static_cast<int>(shards), [&](int shard) {
    const int64_t begin = shard * size + std::min<int64_t>(shard, larger);
    body(begin, begin + size + (shard < larger ? 1 : 0));
  });
}

void IntraOpPool::Both(absl::FunctionRef<void()> first, absl::FunctionRef<void()> second) {
  Run(2, [&](int shard) { shard == 0 ? first() : second(); });
}

void IntraOpPool::Run(int shards, absl::FunctionRef<void(int shard)> body) {
  if (shards <= 1 || concurrency_ == 1 || busy_.exchange(true, std::memory_order_acquire)) {
    for (int shard = 0; shard < shards; ++shard) body(shard);
    return;
  }
  // An exception, as of a shard for which memory is short, waits until no thread uses the body any more.
  std::atomic<bool> has_thrown{false};
  std::exception_ptr thrown;  // written by the first thread that throws
  const auto catching = [&](int shard) {
    try {
      body(shard);
    } catch (...) {
      if (!has_thrown.exchange(true)) thrown = std::current_exception();
    }
  };
  const absl::FunctionRef<void(int)> catching_body = catching;
  body_ = &catching_body;
  OfferJob(shards);
  catching(0);
  FinishJob(1 + RunClaimedShards(0));
  busy_.store(false, std::memory_order_release);
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

// The caller has claimed shard 0 for itself.
void IntraOpPool::OfferJob(int shards) {
  unfinished_.store(shards, std::memory_order_relaxed);
  const int size = shards / concurrency_, larger = shards % concurrency_;
  uint32_t begin = 0;
  for (int i = 0; i < std::min(shards, concurrency_); ++i) {
    const uint32_t end = begin + size + (i < larger ? 1 : 0);
    parts_[i].unclaimed.store(uint64_t{std::max(begin, 1u)} << 32 | end, std::memory_order_release);
    begin = end;
  }
  // Either this sees the sleeper, or the sleeper sees the new signal and does
  // not fall asleep: both sides write their word before they read the other's.
  signal_.fetch_add(1);
  if (sleepers_.load() > 0) FutexWake(signal_, std::min(shards - 1, concurrency_ - 1));
}

// Claims the next shard of the thread's own part or, if that is finished, the last shard of
// another part. -1 if no shard is left.
int IntraOpPool::ClaimShard(int self) {
  for (int i = 0; i < concurrency_; ++i) {
    std::atomic<uint64_t>& unclaimed = parts_[(self + i) % concurrency_].unclaimed;
    uint64_t seen = unclaimed.load(std::memory_order_relaxed);
    while (true) {
      const uint32_t begin = seen >> 32, end = static_cast<uint32_t>(seen);
      if (begin >= end) break;
      const uint64_t rest = i == 0 ? uint64_t{begin + 1} << 32 | end : uint64_t{begin} << 32 | (end - 1);
      if (unclaimed.compare_exchange_weak(seen, rest, std::memory_order_acquire, std::memory_order_relaxed)) {
        return static_cast<int>(i == 0 ? begin : end - 1);
      }
    }
  }
  return -1;
}

// Claims and runs shards of the current job until none is left; returns their number. A helper
// that wakes late finds no shard, or shards of a later job. That is safe: a claimed shard
// belongs to the job that is current then, and that job cannot end before the shard is counted
// as done.
int IntraOpPool::RunClaimedShards(int self) {
  int done = 0;
  for (int shard = ClaimShard(self); shard >= 0; shard = ClaimShard(self), ++done) (*body_)(shard);
  return done;
}

void IntraOpPool::FinishJob(int done) {
  if (unfinished_.fetch_sub(done, std::memory_order_acq_rel) == static_cast<uint32_t>(done)) return;
  const auto finished = [this] { return unfinished_.load(std::memory_order_acquire) == 0; };
  if (spin_ && SpinUntil(finished)) return;
  uint32_t left = unfinished_.fetch_or(kCallerSleeps, std::memory_order_acquire) | kCallerSleeps;
  while (left != kCallerSleeps) {
    FutexWait(unfinished_, left);
    left = unfinished_.load(std::memory_order_acquire);
  }
}

void IntraOpPool::HelperLoop(int self) {
  const ScopedFlushDenormals flush;
  uint32_t seen = 0;
  while (true) {
    if (const int done = RunClaimedShards(self); done > 0) {
      const uint32_t before = unfinished_.fetch_sub(done, std::memory_order_acq_rel);
      if (before - done == kCallerSleeps) FutexWake(unfinished_, 1);
    }
    seen = WaitForSignal(seen);
    if (closing_.load(std::memory_order_relaxed)) return;
  }
}

// Returns the signal, as soon as it is not `seen`.
uint32_t IntraOpPool::WaitForSignal(uint32_t seen) {
  const auto changed = [this, seen] { return signal_.load(std::memory_order_acquire) != seen; };
  if (!spin_ || !SpinUntil(changed)) {
    sleepers_.fetch_add(1);
    while (!changed()) FutexWait(signal_, seen);
    sleepers_.fetch_sub(1);
  }
  return signal_.load(std::memory_order_acquire);
}

}  // namespace thalweg
