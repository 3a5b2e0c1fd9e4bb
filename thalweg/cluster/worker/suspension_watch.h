// Notices that this process did not run for a while: it was stopped, or its
// machine was suspended.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread.h"

namespace thalweg {

// Masters take a task that does not answer for dead and give up the steps that it
// has a part in. If the task goes on later, it must not apply what those steps
// would have changed: messages that came meanwhile are read before the
// cancellations are. So whoever is about to let a step go on calls Check() first.
// Thread-safe.
class SuspensionWatch {
 public:
  // `then` is called, with how long it was, after a gap of more than `limit`: on
  // the thread that notices first, while other calls of Check() wait.
  SuspensionWatch(absl::Duration limit, std::function<void(absl::Duration)> then);
  ~SuspensionWatch();
  SuspensionWatch(const SuspensionWatch&) = delete;
  SuspensionWatch& operator=(const SuspensionWatch&) = delete;

  // A clock's reading and a comparison, if there was none.
  void Check();

 private:
  void Run();

  const int64_t limit_nanos_;
  const std::function<void(absl::Duration)> then_;
  std::atomic<int64_t> seen_nanos_;  // when this process last was seen running
  Mutex mutex_;
  CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  Mutex gap_mutex_;  // held while `then` runs
  std::unique_ptr<Thread> thread_;
};

}  // namespace thalweg
