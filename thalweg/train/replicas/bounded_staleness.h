// SPDX-License-Identifier: Apache-2.0
// Bounded staleness (SSP; Ho et al. 2013): workers update the variables when
// they please, as in asynchronous training, but none may be more than some
// steps ahead of the slowest.
//
//   optimizer = BoundedStaleness(std::move(optimizer), {.slack = 4});
//
// A worker that ends leaves, and is not waited for; one that comes later starts
// where the slowest is.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "thalweg/client/session.h"
#include "thalweg/train/optimizers/optimizers.h"

namespace thalweg {

struct BoundedStalenessOptions {
  int slack = 1;  // steps ahead; 0: all do the same number of steps, but none waits for the updates of others
  // A worker that holds up others for so long is taken for lost; it comes back
  // with its next step.
  absl::Duration expel_after = absl::InfiniteDuration();
};

// Lets no worker be more than options.slack steps ahead of the slowest.
std::unique_ptr<Optimizer> BoundedStaleness(std::unique_ptr<Optimizer> optimizer,
                                            const BoundedStalenessOptions& options = {});

// How far the workers are.
struct WorkerClock {
  int64_t worker = 0;
  int64_t steps = 0;  // of those before it came, too
  int64_t waits = 0;  // steps that were too far ahead
  bool present = true;
};
// Of a graph with a BoundedStaleness; NOT_FOUND if it has none.
absl::StatusOr<std::vector<WorkerClock>> ReadClocks(Session& session, const Graph& graph);

}  // namespace thalweg
