#include "thalweg/base/work_crew.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "absl/strings/str_cat.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/denormals.h"
#include "thalweg/base/logging.h"

namespace thalweg {
namespace {

constexpr int64_t kSpinNanos = 20'000;
constexpr int kShardsPerThread = 8;  // so that uneven shards and late helpers even out
constexpr uint32_t kCallerSleeps = uint32_t{1} << 31;

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

// Sleeps until woken, if `word` still has `value`. May return early.
void FutexWait(std::atomic<uint32_t>& word, uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void FutexWake(std::atomic<uint32_t>& word, int threads) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
}

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

WorkCrew::WorkCrew(int helpers) : spin_(helpers + 1 <= AvailableCores()) {
  CHECK(helpers >= 0) << helpers << " helpers";
  for (int i = 0; i < helpers; ++i) {
    helpers_.push_back(std::make_unique<Thread>(absl::StrCat("crew/", i), [this] { HelperLoop(); }));
  }
}

WorkCrew::~WorkCrew() {
  closing_.store(true, std::memory_order_relaxed);
  signal_.fetch_add(1);  // helpers see closing_ after they see this
  FutexWake(signal_, INT_MAX);
  helpers_.clear();
}

void WorkCrew::ParallelFor(int64_t n, int64_t grain, absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  if (n <= grain || helpers_.empty()) return body(0, n);
  const int64_t most = int64_t{kShardsPerThread} * concurrency();
  const int64_t shards = std::min((n - 1) / grain + 1, most);
  const int64_t size = n / shards, larger = n % shards;  // the first `larger` shards have one index more
  Run(static_cast<int>(shards), [&](int shard) {
    const int64_t begin = shard * size + std::min<int64_t>(shard, larger);
    body(begin, begin + size + (shard < larger ? 1 : 0));
  });
}

void WorkCrew::Both(absl::FunctionRef<void()> first, absl::FunctionRef<void()> second) {
  Run(2, [&](int shard) { shard == 0 ? first() : second(); });
}

void WorkCrew::Run(int shards, absl::FunctionRef<void(int shard)> body) {
  if (shards <= 1 || helpers_.empty() || busy_.exchange(true, std::memory_order_acquire)) {
    for (int shard = 0; shard < shards; ++shard) body(shard);
    return;
  }
  body_ = &body;
  OfferJob(shards);
  body(0);
  FinishJob(1 + RunClaimedShards());
  busy_.store(false, std::memory_order_release);
}

// The caller has claimed shard 0 for itself.
void WorkCrew::OfferJob(int shards) {
  unfinished_.store(shards, std::memory_order_relaxed);
  claims_.store(static_cast<uint64_t>(shards) << 32 | 1, std::memory_order_release);
  // Either this sees the sleeper, or the sleeper sees the new signal and does
  // not fall asleep: both sides write their word before they read the other's.
  signal_.fetch_add(1);
  if (sleepers_.load() > 0) FutexWake(signal_, std::min(shards - 1, concurrency() - 1));
}

// Claims and runs shards of the current job until none is left; returns how
// many. A helper that comes late finds no shard, or those of a later job: what
// it claims is part of whatever job is current, and keeps that job current
// until it is counted as done.
int WorkCrew::RunClaimedShards() {
  int done = 0;
  while (true) {
    const uint64_t claim = claims_.fetch_add(1, std::memory_order_acquire);
    const uint32_t shard = static_cast<uint32_t>(claim), shards = claim >> 32;
    if (shard >= shards) return done;
    (*body_)(static_cast<int>(shard));
    ++done;
  }
}

void WorkCrew::FinishJob(int done) {
  if (unfinished_.fetch_sub(done, std::memory_order_acq_rel) == static_cast<uint32_t>(done)) return;
  const auto finished = [this] { return unfinished_.load(std::memory_order_acquire) == 0; };
  if (spin_ && SpinUntil(finished)) return;
  uint32_t left = unfinished_.fetch_or(kCallerSleeps, std::memory_order_acquire) | kCallerSleeps;
  while (left != kCallerSleeps) {
    FutexWait(unfinished_, left);
    left = unfinished_.load(std::memory_order_acquire);
  }
}

void WorkCrew::HelperLoop() {
  const ScopedFlushDenormals flush;
  uint32_t seen = 0;
  while (true) {
    if (const int done = RunClaimedShards(); done > 0) {
      const uint32_t before = unfinished_.fetch_sub(done, std::memory_order_acq_rel);
      if (before - done == kCallerSleeps) FutexWake(unfinished_, 1);
    }
    seen = WaitForSignal(seen);
    if (closing_.load(std::memory_order_relaxed)) return;
  }
}

// Returns the signal, as soon as it is not `seen`.
uint32_t WorkCrew::WaitForSignal(uint32_t seen) {
  const auto changed = [this, seen] { return signal_.load(std::memory_order_acquire) != seen; };
  if (!spin_ || !SpinUntil(changed)) {
    sleepers_.fetch_add(1);
    while (!changed()) FutexWait(signal_, seen);
    sleepers_.fetch_sub(1);
  }
  return signal_.load(std::memory_order_acquire);
}

}  // namespace thalweg
