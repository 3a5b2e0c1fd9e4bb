// SPDX-License-Identifier: Apache-2.0
// For tests: waits for lines of the log.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/mutex.h"

namespace thalweg {

// Captures the log, in place of stderr, as long as it lives. Only one may exist at a
// time.
class AwaitedLog {
 public:
  explicit AwaitedLog(std::vector<std::string> texts) : texts_(std::move(texts)) {
    current = this;
    SetLogSink([](LogLevel, const std::string& line) { current->Add(line); });
  }
  ~AwaitedLog() { SetLogSink(nullptr); }
  AwaitedLog(const AwaitedLog&) = delete;
  AwaitedLog& operator=(const AwaitedLog&) = delete;

  // Waits until all texts have been logged. Returns false on timeout.
  bool Wait(absl::Duration timeout) const {
    const absl::Time end = absl::Now() + timeout;
    MutexLock lock(&mutex_);
    while (!Complete()) {
      if (added_.WaitWithDeadline(&mutex_, end)) return Complete();
    }
    return true;
  }
  std::string text() const {
    MutexLock lock(&mutex_);
    return log_;
  }

 private:
  void Add(const std::string& line) {
    MutexLock lock(&mutex_);
    log_ += line;
    added_.SignalAll();
  }
  bool Complete() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const std::string& text : texts_) {
      if (!absl::StrContains(log_, text)) return false;
    }
    return true;
  }

  static inline AwaitedLog* current = nullptr;
  const std::vector<std::string> texts_;
  mutable Mutex mutex_;
  mutable CondVar added_;
  std::string log_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
