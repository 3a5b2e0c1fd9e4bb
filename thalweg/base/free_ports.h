// SPDX-License-Identifier: Apache-2.0
// Ports for servers that are about to start on this host.
#pragma once

#include <vector>

#include "absl/status/statusor.h"

namespace thalweg {

// Returns `n` different ports that are free now: first, first + 1, ... or, if `first`
// is 0, any ports below the system's range for outgoing connections. In that range, a
// task that connects to another could get the port that the other is about to use.
// Returns UNAVAILABLE, naming the port, if one is not free.
absl::StatusOr<std::vector<int>> FreePorts(int n, int first = 0);

}  // namespace thalweg
