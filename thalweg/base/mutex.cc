// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/mutex.h"

#include <algorithm>

namespace thalweg {

bool CondVar::WaitWithTimeout(Mutex* mu, absl::Duration timeout) {
  if (timeout == absl::InfiniteDuration()) {
    Wait(mu);
    return false;
  }
  // Bounded, so that the sum with the time of now does not overflow.
  const auto nanos = absl::ToChronoNanoseconds(std::min(timeout, absl::Hours(24 * 365)));
  std::unique_lock<std::mutex> lock(mu->mutex_, std::adopt_lock);
  const bool over = changed_.wait_for(lock, nanos) == std::cv_status::timeout;
  lock.release();
  return over;
}

}  // namespace thalweg
