// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/collectives/links.h"

#include <utility>

namespace thalweg {

void Transfers::Begin() {
  MutexLock lock(&mutex_);
  ++under_way_;
}

bool Transfers::ok() const {
  MutexLock lock(&mutex_);
  return status_.ok();
}

void Transfers::Ended(const absl::Status& status) {
  bool first_error = false;
  bool last = false;
  absl::Status result;
  {
    MutexLock lock(&mutex_);
    if (!status.ok() && status_.ok()) {
      status_ = status;
      first_error = true;
    }
    last = --under_way_ == 0;
    result = status_;
  }
  if (first_error && !last) links_->Abort(status);
  if (last) done_(result);
}

void Transfers::Send(int to, std::string key, Tensor value) {
  Begin();
  links_->Send(to, std::move(key), std::move(value),
               [self = shared_from_this()](const absl::Status& status) { self->Ended(status); });
}

void Transfers::Receive(int from, std::string key, Tensor into, absl::AnyInvocable<void()> next) {
  Begin();
  links_->Receive(from, std::move(key), std::move(into),
                  [self = shared_from_this(), next = std::move(next)](const absl::Status& status) mutable {
                    if (status.ok() && self->ok()) next();
                    self->Ended(status);
                  });
}

}  // namespace thalweg
