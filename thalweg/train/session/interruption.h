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

// A request to end a training session early, shared by the session and the hooks that
// may make the request. It ends waits for other tasks at once. A running step may go on
// for `grace`; then it is cancelled, so that a step that waits for a lost task ends too.
// Thread-safe.
class Interruption {
 public:
  // `grace` is the time that a running step gets to end by itself.
  explicit Interruption(absl::Duration grace = absl::Seconds(2)) : grace_(grace) {}
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  // Makes the request. `why` appears in messages: "Terminated". Later requests have no effect.
  void Request(const std::string& why);
  bool requested() const { return waits_.cancelled(); }  // true once Request() was called
  // CANCELLED with the reason, once requested.
  absl::Status status() const { return waits_.status(); }

  // Cancelled at the request: for waits for other tasks.
  Cancellation& waits() { return waits_; }
  // Cancelled when the grace period is over: for steps.
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
