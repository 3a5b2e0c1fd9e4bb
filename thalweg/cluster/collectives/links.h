// SPDX-License-Identifier: Apache-2.0
// The connections of one member of a collective to the others.
#pragma once

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "thalweg/base/mutex.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Sends tensors to and receives them from other members, which are identified by rank.
// Thread-safe. `done` runs exactly once, on any thread, possibly before the call returns.
class Links {
 public:
  using Done = absl::AnyInvocable<void(const absl::Status&)>;
  virtual ~Links() = default;

  // Offers a value to a member. `done` runs when the member has received it.
  virtual void Send(int to, std::string key, Tensor value, Done done) = 0;
  // Receives a value from a member into `into`. An error if its size differs.
  virtual void Receive(int from, std::string key, Tensor into, Done done) = 0;
  // Fails all transfers, present and later, with `why`.
  virtual void Abort(const absl::Status& why) = 0;
};

// Counts the running transfers of one member. The first error aborts the others. `done` runs when
// all have ended.
class Transfers : public std::enable_shared_from_this<Transfers> {
 public:
  // Counts as one transfer until Finish(), so that `done` does not run before.
  Transfers(std::shared_ptr<Links> links, Links::Done done) : links_(std::move(links)), done_(std::move(done)) {}

  // Start a transfer. `next` runs when the value has arrived, unless a transfer has failed.
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
