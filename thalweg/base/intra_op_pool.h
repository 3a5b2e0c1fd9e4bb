// Intra-op parallelism: a loop shared between the calling thread and helpers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "thalweg/base/thread.h"

namespace thalweg {

// A pool works on one job at a time, cut into shards. Every thread has a part of
// them of its own, in order: the caller the first, each helper the next. When it is
// through with that, it takes shards off the ends of the others' parts, so a
// helper that is late to wake costs nothing. Loops over the same range are
// therefore worked on by the same threads, op after op and step after step, and
// each finds in its caches what it wrote last: where cores have caches of their
// own, to fetch a variable from those of another costs more than to update it.
//
// A caller never waits for anybody else's job: if the pool is busy, or the call
// comes from inside a body, the whole job runs on the calling thread.
//
// After a job a helper spins for at most 20 us, where there is a core for every
// thread of the pool, and then sleeps; to wake it costs the caller a few
// microseconds, and it starts some 20 us later. A job should have that much to
// do: `grain` says how many indices are worth a shard.
//
// Thread-safe. Calls allocate nothing. Owned by a device; bodies must be done
// before it is destroyed, which they are when no call is under way.
class IntraOpPool {
 public:
  // REQUIRES: helpers >= 0. With none, everything runs on the calling thread.
  explicit IntraOpPool(int helpers);
  ~IntraOpPool();
  IntraOpPool(const IntraOpPool&) = delete;
  IntraOpPool& operator=(const IntraOpPool&) = delete;

  // The most threads that work on one job: the helpers and the caller.
  int concurrency() const { return concurrency_; }

  // Calls body(begin, end) for disjoint ranges that together are [0, n), each
  // index in exactly one of them. Returns when all are done. Nothing is shared
  // when n <= grain, and then body is called once (never when n <= 0).
  void ParallelFor(int64_t n, int64_t grain, absl::FunctionRef<void(int64_t begin, int64_t end)> body);

  // Calls body(shard) once for every shard in [0, shards). They run in any order,
  // at the same time or not; the caller starts with the first.
  void Run(int shards, absl::FunctionRef<void(int shard)> body);

  // Calls both, perhaps at the same time. The caller starts with `first`.
  void Both(absl::FunctionRef<void()> first, absl::FunctionRef<void()> second);

 private:
  // Shards of the current job that nobody has claimed: begin << 32 | end.
  struct alignas(64) Part {
    std::atomic<uint64_t> unclaimed{0};
  };

  void HelperLoop(int self);
  int ClaimShard(int self);
  int RunClaimedShards(int self);
  void OfferJob(int shards);
  void FinishJob(int done);
  uint32_t WaitForSignal(uint32_t seen);

  const int concurrency_;
  const bool spin_;  // there is a core for every thread of the intra_op_pool

  std::atomic<bool> busy_{false};  // a caller owns the job below

  // The job. A thread that claims a shard may use body_ until it has counted
  // the shard as done: the caller stays in Run() until all are.
  const absl::FunctionRef<void(int)>* body_ = nullptr;
  const std::unique_ptr<Part[]> parts_;              // by thread; the caller's is the first
  alignas(64) std::atomic<uint32_t> unfinished_{0};  // shards not done; kCallerSleeps is ored in
  alignas(64) std::atomic<uint32_t> signal_{0};      // counts jobs; helpers sleep on it
  std::atomic<int> sleepers_{0};                     // helpers that sleep, or are about to
  std::atomic<bool> closing_{false};

  std::vector<std::unique_ptr<Thread>> helpers_;  // constant after construction
};

}  // namespace thalweg
