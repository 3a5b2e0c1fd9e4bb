// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/session/wait_backoff.h"

#include <algorithm>

#include "thalweg/base/status.h"

namespace thalweg {
namespace {

constexpr absl::Duration kShortestPause = absl::Milliseconds(5);
constexpr absl::Duration kLongestPause = absl::Milliseconds(250);

std::string Seconds(absl::Duration d) { return absl::FormatDuration(absl::Trunc(d, absl::Seconds(1))); }

}  // namespace

WaitBackoff::WaitBackoff(absl::Duration max_wait, Cancellation* cancellation, Clock& clock)
    : max_wait_(max_wait), cancellation_(cancellation), clock_(clock), start_nanos_(clock.MonotonicNanos()) {}

absl::Duration WaitBackoff::waited() const { return absl::Nanoseconds(clock_.MonotonicNanos() - start_nanos_); }

absl::Status WaitBackoff::Pause(absl::string_view what) {
  const absl::Duration so_far = waited();
  if (cancellation_ != nullptr && cancellation_->cancelled()) {
    return Append(cancellation_->status(), absl::StrCat("; it had waited for ", Seconds(so_far), ": ", what));
  }
  if (so_far >= max_wait_) return DeadlineExceeded("gave up after ", Seconds(so_far), ": ", what);
  if (so_far >= next_line_) {
    LOG(INFO) << "Still waiting after " << Seconds(so_far) << ": " << what;
    next_line_ *= 2;
  }
  const absl::Duration pause = std::clamp(so_far / 8, kShortestPause, kLongestPause);
  clock_.SleepNanos(absl::ToInt64Nanoseconds(std::min(pause, max_wait_ - so_far)));
  return absl::OkStatus();
}

bool IsTaskLost(const absl::Status& status) { return absl::IsUnavailable(status) || absl::IsAborted(status); }

}  // namespace thalweg
