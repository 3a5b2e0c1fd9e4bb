// SPDX-License-Identifier: Apache-2.0
// Identifies the worker that a graph is built for, for optimizers across replicas.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "thalweg/graph/scope.h"

namespace thalweg {

// How long a step may take that only reads or writes a few numbers about the replicas.
inline constexpr absl::Duration kShortStep = absl::Minutes(1);

struct ReplicaIdentity {
  Output anchor;       // an operation on this worker
  int64_t worker = 0;  // its index among all workers
  std::string task;    // "/job:worker/task:0"; "" if the device does not name a task
};

// Uses the device that the scope assigns to operations: the index is that of the task. A
// "chief" (or "master") beside the workers is the last of `total`; by default, `total` is
// larger than any number of workers.
ReplicaIdentity IdentifyReplica(const Scope& s, int64_t total = int64_t{1} << 20);

}  // namespace thalweg
