// When a wait is long enough to be told.
#pragma once

#include "absl/time/time.h"

namespace thalweg {

inline constexpr absl::Duration kLogWaitAfter = absl::Seconds(10);

}  // namespace thalweg
