// SPDX-License-Identifier: Apache-2.0
// How long a wait may last before it is logged.
#pragma once

#include "absl/time/time.h"

namespace thalweg {

inline constexpr absl::Duration kLogWaitAfter = absl::Seconds(10);

}  // namespace thalweg
