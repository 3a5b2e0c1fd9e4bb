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

// How far workers may be apart.
struct BoundedStalenessOptions {
  int slack =
      1;  // how many steps a worker may be ahead; 0: all run the same number of steps, without waiting for updates
  // A worker that delays others for this long is considered lost. It is back with its next
  // step.
  absl::Duration expel_after = absl::InfiniteDuration();
};

// Wraps `optimizer` so that no worker is more than options.slack steps ahead of the slowest.
std::unique_ptr<Optimizer> BoundedStaleness(std::unique_ptr<Optimizer> optimizer,
                                            const BoundedStalenessOptions& options = {});

// The progress of one worker.
struct WorkerClock {
  int64_t worker = 0;   // index of the worker
  int64_t steps = 0;    // steps done, including those before it joined
  int64_t waits = 0;    // steps before which it had to wait
  bool present = true;  // false if it has left or is considered lost
};
// Reads the progress of all workers. NOT_FOUND if the graph does not use BoundedStaleness.
absl::StatusOr<std::vector<WorkerClock>> ReadClocks(Session& session, const Graph& graph);

}  // namespace thalweg
