// SPDX-License-Identifier: Apache-2.0
// Interruption: ends a training from another thread, as a signal does.
#pragma once

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread.h"

namespace thalweg {

// Shared by a training session and the hooks that may interrupt it. A request
// ends waits for other tasks at once. The step that runs gets `grace` to end by
// itself and is cancelled then, so that a step that waits for a lost task does
// not outlive the request. Thread-safe.
class Interruption {
 public:
  explicit Interruption(absl::Duration grace = absl::Seconds(2)) : grace_(grace) {}
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  // `why` is for people: "Terminated". The first request counts.
  void Request(const std::string& why);
  bool requested() const { return waits_.cancelled(); }
  // CANCELLED with the reason, once requested.
  absl::Status status() const { return waits_.status(); }

  Cancellation& waits() { return waits_; }
  Cancellation& steps() { return steps_; }

 private:
  const absl::Duration grace_;
  Cancellation waits_;
  Cancellation steps_;
  Mutex mutex_;
  CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Thread> thread_ ABSL_GUARDED_BY(mutex_);  // waits for the grace to pass
};

}  // namespace thalweg
