// SPDX-License-Identifier: Apache-2.0
// A fixed number of threads that start closures in the order they were scheduled.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread.h"

namespace thalweg {

// For work that takes long or blocks. Waking a sleeping thread costs about 20 us, so
// work inside a step is shared with IntraOpPool instead.
//
// Thread-safe. The destructor runs all queued closures, including those that they
// schedule in turn, and then joins the threads.
class ThreadPool {
 public:
  // Threads are named "name/0", "name/1", ... REQUIRES: threads >= 1
  ThreadPool(const std::string& name, int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Does not block: the queue is unbounded.
  void Schedule(absl::AnyInvocable<void()> closure);

  int size() const { return static_cast<int>(threads_.size()); }

 private:
  void RunClosures();

  Mutex mu_;
  CondVar changed_;  // a closure was queued, or closing_ was set
  std::deque<absl::AnyInvocable<void()>> queue_ ABSL_GUARDED_BY(mu_);
  bool closing_ ABSL_GUARDED_BY(mu_) = false;

  std::vector<std::unique_ptr<Thread>> threads_;  // constant after construction
};

}  // namespace thalweg
