// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/session/prepared_steps.h"

#include <memory>

#include "gtest/gtest.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/state_ops.h"

namespace thalweg {
namespace {

// A training with a global step of 7.
class PreparedStepsTest : public testing::Test {
 protected:
  PreparedStepsTest() : scope_(graph_.root()), global_step_(GetOrCreateGlobalStep(scope_)) {}

  // The global step that a step with this fetch reports.
  StepContext::GlobalStep Report(const Fetch& fetch) {
    auto session = Session::Create(graph_);
    EXPECT_THAT(session.status(), IsOk());
    EXPECT_THAT((*session)->Run({Assign(scope_, global_step_.ref, Const(scope_, int64_t{7}))}).status(), IsOk());
    PreparedSteps steps(graph_, **session);
    const absl::StatusOr<StepResults> results = steps.Run({fetch}, {}, /*trace=*/false);
    EXPECT_THAT(results.status(), IsOk());
    return results.ok() ? results->global_step : StepContext::GlobalStep();
  }

  Graph graph_;
  const Scope scope_;
  const Var global_step_;
};

TEST_F(PreparedStepsTest, AStepWithoutAnUpdateReportsTheStepAsItIs) {
  const StepContext::GlobalStep step = Report(Const(scope_, 1.f));
  EXPECT_EQ(step.value, 7);
  EXPECT_FALSE(step.after_update);
}

TEST_F(PreparedStepsTest, AnIncrementIsReportedAfterIt) {
  const Output increment = AssignAdd(scope_, global_step_.ref, Const(scope_, int64_t{1}));
  const StepContext::GlobalStep step = Report(Identity(scope_, increment));
  EXPECT_EQ(step.value, 8);
  EXPECT_TRUE(step.after_update);
}

// In synchronous training another task counts. The graph says which node knows,
// whatever its op.
TEST_F(PreparedStepsTest, ANodeThatTheGraphListsIsReported) {
  const Output next = Const(scope_.WithOpName("next"), int64_t{42});
  graph_.AddToCollection(kGlobalStepUpdates, "next");
  const StepContext::GlobalStep step = Report(Identity(scope_, next));
  EXPECT_EQ(step.value, 42);
  EXPECT_TRUE(step.after_update);
}

}  // namespace
}  // namespace thalweg
