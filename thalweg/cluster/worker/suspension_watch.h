// SPDX-License-Identifier: Apache-2.0
// Detects that this process did not run for a while, because it was stopped or its
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

// Masters declare a task that does not answer dead and give up its steps. If the task
// resumes later, it must not apply the updates of those steps. The messages that arrived
// meanwhile are read before the cancellations, so code that starts or continues a step
// calls Check() first. Thread-safe.
class SuspensionWatch {
 public:
  // Calls `then` with the length of the gap after a gap of more than `limit`, on the thread
  // that detects it first. Other calls of Check() wait for its end.
  SuspensionWatch(absl::Duration limit, std::function<void(absl::Duration)> then);
  ~SuspensionWatch();
  SuspensionWatch(const SuspensionWatch&) = delete;
  SuspensionWatch& operator=(const SuspensionWatch&) = delete;

  // Costs a clock reading and a comparison if there was no gap.
  void Check();

 private:
  void Run();

  const int64_t limit_nanos_;
  const std::function<void(absl::Duration)> then_;
  std::atomic<int64_t> seen_nanos_;  // when this process was last observed running
  Mutex mutex_;
  CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  Mutex gap_mutex_;  // held while `then` runs
  std::unique_ptr<Thread> thread_;
};

}  // namespace thalweg
