// SPDX-License-Identifier: Apache-2.0
// Coordinator: threads that stop together.
//
//   Coordinator coordinator;
//   coordinator.Start("reader", [&] { return ReadUntil(coordinator); });
//   ...
//   coordinator.RequestStop();
//   RETURN_IF_ERROR(coordinator.Join(absl::Seconds(10)));
#pragma once

#include <list>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/thread.h"

namespace thalweg {

// Thread-safe. The destructor asks for a stop and waits for the threads.
class Coordinator {
 public:
  Coordinator() = default;
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // Runs `body` on a thread. What it returns, unless it is OK, stops the others.
  // OUT_OF_RANGE (the end of the data) stops them, too, and is no error.
  void Start(const std::string& name, absl::AnyInvocable<absl::Status()> body);

  // The first error is kept for Join; those that follow from the stop are not.
  void RequestStop(const absl::Status& why = absl::OkStatus());
  bool ShouldStop() const { return stop_.cancelled(); }
  // True if a stop was asked for within this time.
  bool WaitForStop(absl::Duration timeout);
  // Cancelled by a stop: for steps that threads run (RunOptions).
  Cancellation* cancellation() { return &stop_; }
  // The error so far.
  absl::Status status() const;

  // Waits for all threads to end and gives the first error. DEADLINE_EXCEEDED,
  // naming those that still run, if they need more than `grace` after the stop.
  absl::Status Join(absl::Duration grace = absl::Seconds(120));

 private:
  struct Body {
    std::string name;
    bool ended = false;
    std::unique_ptr<Thread> thread;
  };

  Cancellation stop_;
  mutable Mutex mutex_;
  CondVar changed_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::list<Body> bodies_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace thalweg
