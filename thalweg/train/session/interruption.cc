// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/session/interruption.h"

#include <utility>

#include "thalweg/base/status.h"

namespace thalweg {

Interruption::~Interruption() {
  std::unique_ptr<Thread> thread;
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.SignalAll();
    thread = std::move(thread_);
  }
}

void Interruption::Request(const std::string& why) {
  waits_.Cancel(Cancelled("the training was interrupted: ", why));
  MutexLock lock(&mutex_);
  if (thread_ != nullptr || closing_) return;
  thread_ = std::make_unique<Thread>("interruption", [this] {
    {
      MutexLock lock(&mutex_);
      while (!closing_ && !changed_.WaitWithTimeout(&mutex_, grace_)) {
      }
      if (closing_) return;
    }
    steps_.Cancel(waits_.status());
  });
}

}  // namespace thalweg
