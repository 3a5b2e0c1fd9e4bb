// SPDX-License-Identifier: Apache-2.0
// SIGTERM and SIGINT as a wish to end well.
#pragma once

#include <functional>
#include <memory>

#include "thalweg/base/thread.h"
#include "thalweg/train/session/hooks.h"

namespace thalweg {

// As long as it lives, the first of these signals that the process gets calls
// `then`, on a thread of its own; the second ends the process at once.
//
//   const OnSignal drain([&](int) { server->Drain(); });
//   return server->Join();
class OnSignal {
 public:
  // REQUIRES: at most 8 live at a time.
  explicit OnSignal(std::function<void(int signal)> then);
  ~OnSignal();
  OnSignal(const OnSignal&) = delete;
  OnSignal& operator=(const OnSignal&) = delete;

 private:
  int fds_[2] = {-1, -1};
  std::unique_ptr<Thread> thread_;
};

// As long as it lives, each SIGUSR1 that the process gets calls `then`, on a thread of its own.
//
//   const OnDumpSignal dump([&] { server->DumpFlightRecorder().status().IgnoreError(); });
class OnDumpSignal {
 public:
  // REQUIRES: at most 8 live at a time.
  explicit OnDumpSignal(std::function<void()> then);
  ~OnDumpSignal();
  OnDumpSignal(const OnDumpSignal&) = delete;
  OnDumpSignal& operator=(const OnDumpSignal&) = delete;

 private:
  int fds_[2] = {-1, -1};
  std::unique_ptr<Thread> thread_;
};

// Ends a training when such a signal comes, after the step that runs: the last
// checkpoint is saved, and the session closed, as at any other end. Waits for
// other tasks end at once, and a step that has not ended 2 s later is cancelled;
// Run returns CANCELLED then. A worker that ends so is not done with its work:
// it may be started again.
std::shared_ptr<Hook> StopOnSignal();

}  // namespace thalweg
