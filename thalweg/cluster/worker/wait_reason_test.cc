// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/worker/wait_reason.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/scope.h"
#include "thalweg/graph/sync_role.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/roster_ops.h"

namespace thalweg {
namespace {

WaitReason ReasonOf(const Output& output) { return WaitReasonOf(*output.node); }

TEST(WaitReason, AccumulatorsWaitForGradientsAndQueuesForInput) {
  Graph graph;
  const Scope s = graph.root();
  const Output accumulator = ConditionalAccumulator(s, kFloat, Shape());
  for (const Output& waits : {AccumulatorTakeGradient(s, accumulator, 1, kFloat),
                              AccumulatorAwaitRound(s, accumulator, Const(s, int64_t{0}), 2, 2)}) {
    const WaitReason reason = ReasonOf(waits);
    EXPECT_EQ(reason.phase, WaitReason::Phase::kWait) << waits.node->op();
    EXPECT_EQ(std::string(reason.kind), "gradients") << waits.node->op();
  }
  const Output queue = FIFOQueue(s.WithOpName("examples"), {kFloat});
  const WaitReason reason = ReasonOf(QueueDequeue(s, queue, {kFloat})[0]);
  EXPECT_EQ(reason.phase, WaitReason::Phase::kInput);
  EXPECT_EQ(std::string(reason.kind), "input");
  EXPECT_EQ(reason.on, "examples");
}

// Ops of which only the role says what they wait for, not the name.
const OpRegistration kRoleOps[] = {
    Op("WaitReasonTestGradients"),
    Op("WaitReasonTestStep"),
    Op("WaitReasonTestAccumulatorOfNothing"),
};
const SyncRoleRegistration kRoles[] = {
    {"WaitReasonTestGradients", SyncRole::kAwaitGradients},
    {"WaitReasonTestStep", SyncRole::kAwaitStep},
};

TEST(WaitReason, TheRoleOfAnOpCountsNotItsName) {
  Graph graph;
  const Scope s = graph.root();
  const auto kind_of = [&](const char* op) { return std::string(WaitReasonOf(*s.Add(op, {})).kind); };
  EXPECT_EQ(kind_of("WaitReasonTestGradients"), "gradients");
  EXPECT_EQ(kind_of("WaitReasonTestStep"), "token");
  EXPECT_EQ(kind_of("WaitReasonTestAccumulatorOfNothing"), "input");
}

TEST(WaitReason, WorkersWaitForTheRosterToBeginAStep) {
  Graph graph;
  const Scope s = graph.root();
  const Output roster = RosterOf(s, "roster"), zero = Const(s, int64_t{0});
  for (const Output& waits : {RosterAwaitTurn(s, roster, zero, 1), RosterAwaitEmpty(s, roster)}) {
    EXPECT_EQ(std::string(ReasonOf(waits).kind), "token") << waits.node->op();
  }
  EXPECT_EQ(std::string(WaitReasonOf(*RosterAwaitStep(s, roster, zero, zero, zero).step.node).kind), "token");
}

}  // namespace
}  // namespace thalweg
