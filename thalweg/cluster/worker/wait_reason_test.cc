// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/worker/wait_reason.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/scope.h"
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
                              AccumulatorAwaitRound(s, accumulator, Const(s, int64_t{0}), 2)}) {
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

}  // namespace
}  // namespace thalweg
