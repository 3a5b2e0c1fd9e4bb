// The steps that a training repeats, prepared.
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

// What one step gives.
struct StepResults {
  std::vector<Tensor> values;  // of the fetches, in order
  StepContext::GlobalStep global_step;
  RunMetadata metadata;  // if it was traced
};

// Runs steps of one session and reads the global step along with them: after its
// increment if the step has one, else as it is. A set of names that was seen
// before costs a comparison. Not thread-safe.
class PreparedSteps {
 public:
  // Borrows both.
  PreparedSteps(const Graph& graph, Session& session);

  // `options` is that of the step, but for the trace.
  absl::StatusOr<StepResults> Run(const std::vector<Fetch>& fetches, const std::vector<Feed>& feeds, bool trace,
                                  RunOptions options = {});

 private:
  struct Step {
    std::vector<Fetch> fetches;  // as they were asked for
    std::vector<std::string> feeds;
    std::vector<int> places;  // of the fetches, among the results
    int global_step = -1;     // among the results
    bool after_update = false;
    Session::Callable callable;
  };

  absl::StatusOr<const Step*> Find(const std::vector<Fetch>& fetches, const std::vector<Feed>& feeds);
  absl::StatusOr<Step> Prepare(const std::vector<Fetch>& fetches, const std::vector<Feed>& feeds);
  // An update of the global step that these fetches run or wait for: an increment,
  // or a node of kGlobalStepUpdates. Empty if there is none.
  Output Increment(const std::vector<Fetch>& fetches) const;

  const Graph& graph_;
  Session& session_;
  const Var global_step_;
  std::vector<Step> steps_;  // the latest first
};

}  // namespace thalweg
