#include "thalweg/train/patience.h"

#include <algorithm>

#include "thalweg/base/status.h"

namespace thalweg {
namespace {

constexpr int64_t kFirstPauseNanos = 5'000'000;
constexpr int64_t kLongestPauseNanos = 250'000'000;

std::string Seconds(absl::Duration d) { return absl::FormatDuration(absl::Trunc(d, absl::Seconds(1))); }

}  // namespace

Patience::Patience(absl::Duration max_wait, Clock& clock)
    : max_wait_(max_wait), clock_(clock), start_nanos_(clock.MonotonicNanos()), pause_nanos_(kFirstPauseNanos) {}

absl::Duration Patience::waited() const { return absl::Nanoseconds(clock_.MonotonicNanos() - start_nanos_); }

absl::Status Patience::Pause(absl::string_view what) {
  const absl::Duration so_far = waited();
  if (so_far >= max_wait_) return DeadlineExceeded("gave up after ", Seconds(so_far), ": ", what);
  if (so_far >= next_line_) {
    LOG(INFO) << "Waiting since " << Seconds(so_far) << ": " << what;
    next_line_ *= 2;
  }
  clock_.SleepNanos(std::min(pause_nanos_, absl::ToInt64Nanoseconds(max_wait_ - so_far)));
  pause_nanos_ = std::min(2 * pause_nanos_, kLongestPauseNanos);
  return absl::OkStatus();
}

bool IsTaskLost(const absl::Status& status) { return absl::IsUnavailable(status) || absl::IsAborted(status); }

}  // namespace thalweg
