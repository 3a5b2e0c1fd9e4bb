// SPDX-License-Identifier: Apache-2.0
// Waits for other tasks with backoff, and logs long waits.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "thalweg/base/cancellation.h"
#include "thalweg/base/clock.h"

namespace thalweg {

// One wait of unknown length. Each pause is an eighth of the time waited so far, between 5 and
// 250 ms, so that a short wait gets little longer. After 10 s it logs what it waits for and for
// how long, again each time the duration has doubled. Not thread-safe.
class WaitBackoff {
 public:
  // `cancellation`, which may be nullptr, ends the wait early. Borrowed.
  explicit WaitBackoff(absl::Duration max_wait, Cancellation* cancellation = nullptr, Clock& clock = RealClock());

  // Pauses once. DEADLINE_EXCEEDED, with `what`, after max_wait; the reason of the
  // cancellation, with `what`, if it was cancelled.
  absl::Status Pause(absl::string_view what);
  absl::Duration waited() const;
  absl::Duration left() const { return max_wait_ - waited(); }

 private:
  const absl::Duration max_wait_;
  Cancellation* const cancellation_;
  Clock& clock_;
  const int64_t start_nanos_;
  absl::Duration next_line_ = absl::Seconds(10);
};

// True if a step failed because a task has left or was restarted, so that a new session may
// succeed.
bool IsTaskLost(const absl::Status& status);

}  // namespace thalweg
