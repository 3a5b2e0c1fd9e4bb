// SPDX-License-Identifier: Apache-2.0
// The environment for fuzzing kernels: a crash or hang reports the current case, memory is limited, and
// long runs are cancelled.
#pragma once

#include <signal.h>
#include <sys/resource.h>

#include <iterator>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/memory.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread.h"

namespace thalweg {

// A description of the current case.
std::string& FuzzCase();

// Handlers and limits for the time of the test.
class FuzzGuard {
 public:
  // `memory`: bytes beyond what the process has at the start.
  explicit FuzzGuard(int64_t memory = int64_t{4} << 30);
  ~FuzzGuard();
  void StartCase();

 private:
  static constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF};
  struct sigaction before_[std::size(kSignals)];
  rlimit limit_;
  char stack_[1 << 16];
};

// Cancels runs that take long, like the client of a step would. Kernels with loops whose length comes
// from their inputs must react. Thread-safe.
class FuzzWatch {
 public:
  FuzzWatch() : thread_("watch", [this] { Run(); }) {}
  ~FuzzWatch() {
    MutexLock lock(&mutex_);
    ended_ = true;
    changed_.SignalAll();
  }
  void Begin(Cancellation* cancellation) {
    MutexLock lock(&mutex_);
    running_ = cancellation;
    since_ = absl::Now();
  }

 private:
  void Run();

  Mutex mutex_;
  CondVar changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  Cancellation* running_ ABSL_GUARDED_BY(mutex_) = nullptr;
  absl::Time since_ ABSL_GUARDED_BY(mutex_);
  Thread thread_;  // the last: joined first
};

// Refuses large allocations, to test how kernels fail.
class FuzzAllocator final : public Allocator {
 public:
  static constexpr size_t kLargestBlock = size_t{256} << 20;
  void* Allocate(size_t bytes) override { return bytes > kLargestBlock ? nullptr : HostAllocator().Allocate(bytes); }
  void Deallocate(void* memory, size_t bytes) override { HostAllocator().Deallocate(memory, bytes); }
  AllocatorStats Stats() const override { return HostAllocator().Stats(); }
};

}  // namespace thalweg
