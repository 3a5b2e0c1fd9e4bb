// Ports for servers that are about to start on this host.
#pragma once

#include <vector>

#include "absl/status/statusor.h"

namespace thalweg {

// `n` different ports that nobody listens on now: from `first` on or, if that is
// 0, any. Those are below the ones that the system gives to connections, where
// a task that tries to reach one that is not there yet could take its port.
// UNAVAILABLE, naming the port, if one cannot be had.
absl::StatusOr<std::vector<int>> FreePorts(int n, int first = 0);

}  // namespace thalweg
