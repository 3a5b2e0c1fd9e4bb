// SPDX-License-Identifier: Apache-2.0
// Caches the prepared callables of the steps that a training repeats.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/client/session.h"
#include "thalweg/graph/graph.h"
#include "thalweg/train/layers/variable.h"
#include "thalweg/train/session/hooks.h"

namespace thalweg {

// The results of one step.
struct StepResults {
  std::vector<Tensor> values;  // in the order of the fetches
  StepContext::GlobalStep global_step;
  RunMetadata metadata;  // if it was traced
};

// Runs steps of one session and reads the global step in the same step: after its increment
// if the step contains one. Finding the callable of a repeated step costs a comparison of
// names. Not thread-safe.
class PreparedSteps {
 public:
  // Borrows both.
  PreparedSteps(const Graph& graph, Session& session);

  // `options.trace` is ignored in favour of `trace`.
  absl::StatusOr<StepResults> Run(const std::vector<Fetch>& fetches, const std::vector<Feed>& feeds, bool trace,
                                  RunOptions options = {});

 private:
  struct Step {
    std::vector<Fetch> fetches;  // as requested
    std::vector<std::string> feeds;
    std::vector<int> places;  // index of each fetch among the results
    int global_step = -1;     // index of the global step among the results
    bool after_update = false;
    Session::Callable callable;
  };

  absl::StatusOr<const Step*> Find(const std::vector<Fetch>& fetches, const std::vector<Feed>& feeds);
  absl::StatusOr<Step> Prepare(const std::vector<Fetch>& fetches, const std::vector<Feed>& feeds);
  // The update of the global step that these fetches run or depend on: an increment, or a node
  // of kGlobalStepUpdates. Null if there is none.
  Output Increment(const std::vector<Fetch>& fetches) const;

  const Graph& graph_;
  Session& session_;
  const Var global_step_;
  std::vector<Step> steps_;  // most recently used first
};

}  // namespace thalweg
