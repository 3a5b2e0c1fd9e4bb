// When a wait is long enough to be told.
#pragma once

#include "absl/time/time.h"

namespace thalweg {

inline constexpr absl::Duration kReportAfter = absl::Seconds(10);

}  // namespace thalweg
