// SPDX-License-Identifier: Apache-2.0
// How a member of a group reaches the others while they compute together.
#pragma once

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "thalweg/base/mutex.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Members are named by their ranks. Thread-safe. `done` runs exactly once, on
// any thread, at once or later.
class Links {
 public:
  using Done = absl::AnyInvocable<void(const absl::Status&)>;
  virtual ~Links() = default;

  // Offers a value to one member; done when that has taken it.
  virtual void Send(int to, std::string key, Tensor value, Done done) = 0;
  // Fills `into` with what a member sends. An error if that has another size.
  virtual void Receive(int from, std::string key, Tensor into, Done done) = 0;
  // Ends what is under way, and what comes later, with `why`.
  virtual void Abort(const absl::Status& why) = 0;
};

// Counts the transfers under way of one member's part. The first error aborts
// the rest; `done` runs when all have ended.
class Transfers : public std::enable_shared_from_this<Transfers> {
 public:
  // Holds one count until Finish().
  Transfers(std::shared_ptr<Links> links, Links::Done done) : links_(std::move(links)), done_(std::move(done)) {}

  // `next` runs when the value was taken, or has come, and nothing has failed.
  void Send(int to, std::string key, Tensor value);
  void Receive(int from, std::string key, Tensor into, absl::AnyInvocable<void()> next);
  void Finish() { Ended(absl::OkStatus()); }

 private:
  void Begin();
  bool ok() const;
  void Ended(const absl::Status& status);

  const std::shared_ptr<Links> links_;
  mutable Mutex mutex_;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  Links::Done done_;
};

}  // namespace thalweg
