// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/thread_pool.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "thalweg/base/denormals.h"
#include "thalweg/base/exception_boundary.h"
#include "thalweg/base/logging.h"

namespace thalweg {

ThreadPool::ThreadPool(const std::string& name, int threads) {
  CHECK(threads >= 1) << "pool " << name << " of " << threads << " threads";
  for (int i = 0; i < threads; ++i) {
    const std::string suffix = absl::StrCat("/", i);
    threads_.push_back(
        std::make_unique<Thread>(absl::StrCat(name.substr(0, 15 - suffix.size()), suffix), [this] { RunClosures(); }));
  }
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(&mu_);
    closing_ = true;
    changed_.SignalAll();
  }
  threads_.clear();
}

void ThreadPool::Schedule(absl::AnyInvocable<void()> closure) {
  MutexLock lock(&mu_);
  queue_.push_back(std::move(closure));
  changed_.Signal();
}

void ThreadPool::RunClosures() {
  const ScopedFlushDenormals flush;
  while (true) {
    absl::AnyInvocable<void()> closure;
    {
      MutexLock lock(&mu_);
      while (queue_.empty() && !closing_) changed_.Wait(&mu_);
      if (queue_.empty()) return;
      closure = std::move(queue_.front());
      queue_.pop_front();
    }
    LogExceptions("a thread pool", [&] { closure(); });
  }
}

}  // namespace thalweg
