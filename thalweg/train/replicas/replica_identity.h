// Which worker a graph is built for: what optimizers across replicas need to
// know.
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
  int64_t worker = 0;  // its number among all
  std::string task;    // "/job:worker/task:0"; "" if the device names none
};

// From the device that the scope gives to operations: the number is that of the
// task. A "chief" (or "master") beside the workers is the last of `total` or, if
// nobody says how many there are, a number that none of them has.
ReplicaIdentity IdentifyReplica(const Scope& s, int64_t total = int64_t{1} << 20);

}  // namespace thalweg
