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

// Starts and stops a group of threads together. Thread-safe. The destructor requests a stop and waits for the threads.
class Coordinator {
 public:
  Coordinator() = default;
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // Runs `body` on a thread of its own. An error that it returns stops the other
  // threads. OUT_OF_RANGE (the end of the data) stops them too but is not an error.
  void Start(const std::string& name, absl::AnyInvocable<absl::Status()> body);

  // Asks all threads to stop. Join() returns the first error; later errors, which follow from the stop, are dropped.
  void RequestStop(const absl::Status& why = absl::OkStatus());
  bool ShouldStop() const { return stop_.cancelled(); }  // true once a stop was requested
  // Waits until a stop is requested, at most `timeout`. Returns whether it was.
  bool WaitForStop(absl::Duration timeout);
  // Cancelled by a stop. Pass it to the steps that the threads run (RunOptions).
  Cancellation* cancellation() { return &stop_; }
  // The first error so far.
  absl::Status status() const;

  // Waits for all threads to end and returns the first error. DEADLINE_EXCEEDED,
  // naming the threads that still run, if they take longer than `grace` after the stop.
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
