// Collectives for graphs: what the devices of a group, in one task or in many,
// compute together. Every member has a node with the same keys.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "thalweg/graph/scope.h"

namespace thalweg {

struct CollectiveOptions {
  int group_size = 0;    // how many devices
  int group_key = 1;     // names the group
  int instance_key = 1;  // names this collective among those of the group
  absl::Duration timeout = absl::InfiniteDuration();
};

struct CollectiveReduceOptions {
  std::string merge = "Add";  // "Add", "Mul", "Max" or "Min"
  bool mean = false;          // divided by the number of members
};

// Every member gets the sum of the inputs of all.
Output CollectiveReduce(const Scope& s, Output input, const CollectiveOptions& options,
                        const CollectiveReduceOptions& reduce = {});
// Every member gets the inputs of all, one after the other, by job and task.
Output CollectiveGather(const Scope& s, Output input, const CollectiveOptions& options);
// One member has the value, the others get it.
Output CollectiveBcastSend(const Scope& s, Output input, const Shape& shape, const CollectiveOptions& options);
Output CollectiveBcastRecv(const Scope& s, DType dtype, const Shape& shape, const CollectiveOptions& options);

}  // namespace thalweg
