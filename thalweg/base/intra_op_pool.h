// SPDX-License-Identifier: Apache-2.0
// Intra-op parallelism: a loop shared between the calling thread and helpers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "thalweg/base/thread.h"

namespace thalweg {

// A pool runs one job at a time, divided into shards. Every thread has its own part of the shards, in
// order: the caller the first part, each helper the next. A thread that has finished its part steals
// shards from the ends of the other parts, so a helper that wakes late costs nothing. Loops over the same
// range are therefore processed by the same threads, op after op and step after step, and each thread
// finds its data in its own caches. This matters: fetching a variable from another core's cache costs more
// than updating it.
//
// A caller never waits for another caller's job: if the pool is busy, or if the call comes from inside a
// body, the whole job runs on the calling thread.
//
// After a job, a helper spins for at most 20 us, if there is a core for every thread of the pool, and then
// sleeps. Waking it costs the caller a few microseconds, and it starts about 20 us later. A job should have
// that much work: `grain` is the number of indices that are worth a shard.
//
// Thread-safe. Calls do not allocate. Owned by a device. No call may be running when it is destroyed.
class IntraOpPool {
 public:
  // REQUIRES: helpers >= 0. Without helpers, everything runs on the calling thread.
  explicit IntraOpPool(int helpers);
  ~IntraOpPool();
  IntraOpPool(const IntraOpPool&) = delete;
  IntraOpPool& operator=(const IntraOpPool&) = delete;

  // The maximum number of threads that work on one job: the helpers and the caller.
  int concurrency() const { return concurrency_; }

  // Calls body(begin, end) for disjoint ranges that cover [0, n), and returns when all are done. If
  // n <= grain, calls body once on this thread (not at all if n <= 0).
  void ParallelFor(int64_t n, int64_t grain, absl::FunctionRef<void(int64_t begin, int64_t end)> body);

  // Calls body(shard) once for every shard in [0, shards), in any order and possibly concurrently. The
  // caller starts with the first.
  void Run(int shards, absl::FunctionRef<void(int shard)> body);

  // Calls both, possibly concurrently. The caller starts with `first`.
  void Both(absl::FunctionRef<void()> first, absl::FunctionRef<void()> second);

 private:
  // The unclaimed shards of a part of the current job: begin << 32 | end.
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
  const bool spin_;  // there is a core for every thread of the pool

  std::atomic<bool> busy_{false};  // a caller owns the job below

  // The job. A thread that has claimed a shard may use body_ until it has counted the shard as done,
  // because the caller stays in Run() until all shards are.
  const absl::FunctionRef<void(int)>* body_ = nullptr;
  const std::unique_ptr<Part[]> parts_;              // by thread; the caller's is the first
  alignas(64) std::atomic<uint32_t> unfinished_{0};  // shards not done; kCallerSleeps is ored in
  alignas(64) std::atomic<uint32_t> signal_{0};      // counts jobs; helpers sleep on it
  std::atomic<int> sleepers_{0};                     // helpers that sleep or are about to
  std::atomic<bool> closing_{false};

  std::vector<std::unique_ptr<Thread>> helpers_;  // constant after construction
};

}  // namespace thalweg
