// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/partitioner.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"

namespace thalweg {
namespace {

using tensorflow::NodeDef;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

constexpr char kPs[] = "/job:ps/replica:0/task:0";
constexpr char kWorker[] = "/job:worker/replica:0/task:0";

// A variable in a parameter server, and readers in a worker.
class PartitionerTest : public testing::Test {
 protected:
  PartitionerTest()
      : ps_(graph_.root().WithDevice(absl::StrCat(kPs, "/device:CPU:0"))),
        worker_(graph_.root().WithDevice(absl::StrCat(kWorker, "/device:CPU:0"))),
        v_(RefVariable(ps_.WithOpName("v"), kFloat, {})) {}

  void Partition(bool pushes) {
    ASSERT_OK(graph_.build_status());
    const PartitionOptions options{.incarnation = [](const std::string&) { return uint64_t{1}; },
                                   .pushes = [=](const std::string&, const std::string&) { return pushes; }};
    ASSERT_OK_AND_ASSIGN(parts_, thalweg::Partition(std::move(graph_), signature_, options));
  }
  // The nodes of a part whose names begin so.
  std::vector<NodeDef> Nodes(const std::string& task, const std::string& prefix) const {
    std::vector<NodeDef> nodes;
    for (const GraphPart& part : parts_) {
      for (const NodeDef& node : part.graph.node()) {
        if (part.task == task && absl::StartsWith(node.name(), prefix)) nodes.push_back(node);
      }
    }
    return nodes;
  }

  Graph graph_;
  const Scope ps_, worker_;
  const Output v_;
  const Signature signature_;
  std::vector<GraphPart> parts_;
};

// In TensorFlow's way: the value is fetched when the reader's other inputs are
// there.
TEST_F(PartitionerTest, TheReceiveOfAVariableWaitsForTheOtherInputsOfItsReader) {
  const Output barrier = Neg(worker_.WithOpName("barrier"), Const(worker_, 1.f));
  Identity(worker_.WithOpName("read").WithControlDependencies({barrier}), v_);
  Partition(/*pushes=*/false);
  ASSERT_THAT(Nodes(kWorker, "v/_recv"), SizeIs(1));
  EXPECT_THAT(Nodes(kWorker, "v/_recv")[0].input(), ElementsAre("^barrier"));
  EXPECT_THAT(Nodes(kPs, "v/_send")[0].input(), ElementsAre("v"));
}

TEST_F(PartitionerTest, TheReceiveWaitsForWhatComesFromTheSameTask) {
  const Output update = AssignAdd(ps_.WithOpName("update"), v_, Const(ps_, 1.f));
  Identity(worker_.WithControlDependencies({update}), v_);
  Partition(/*pushes=*/false);
  EXPECT_THAT(Nodes(kWorker, "v/_recv")[0].input(), ElementsAre("^update/_arrived"));
}

// A push is sent when the reader's other inputs are there.
TEST_F(PartitionerTest, ThePushOfAVariableWaitsForTheOtherInputsOfItsReader) {
  const Output update = AssignAdd(ps_.WithOpName("update"), v_, Const(ps_, 1.f));
  const Output barrier = Neg(worker_.WithOpName("barrier"), Const(worker_, 1.f));
  Identity(worker_.WithControlDependencies({update, barrier}), v_);
  Partition(/*pushes=*/true);
  EXPECT_THAT(Nodes(kPs, "v/_send")[0].input(), ElementsAre("v", "^barrier/_arrived", "^update"));
  EXPECT_THAT(Nodes(kWorker, "v/_recv")[0].input(), IsEmpty());
}

// In a branch that is not taken the signal is dead, and what waits for it must not run. A control edge from the
// receive would only say that something has arrived.
TEST_F(PartitionerTest, ASignalFromAnotherTaskPassesDeadness) {
  const Output barrier = Neg(worker_.WithOpName("barrier"), Const(worker_, 1.f));
  Neg(ps_.WithOpName("after").WithControlDependencies({barrier}), Const(ps_, 1.f));
  Partition(/*pushes=*/true);
  ASSERT_THAT(Nodes(kPs, "after"), SizeIs(1));
  EXPECT_EQ(Nodes(kPs, "after")[0].input(1), "^barrier/_arrived");
  ASSERT_THAT(Nodes(kPs, "barrier/_arrived"), SizeIs(1));
  EXPECT_EQ(Nodes(kPs, "barrier/_arrived")[0].op(), "Identity");
  EXPECT_THAT(Nodes(kPs, "barrier/_arrived")[0].input(), ElementsAre("barrier/_recv"));
}

TEST_F(PartitionerTest, ReadersThatWaitForDifferentNodesReadApart) {
  const Output first = Identity(worker_.WithOpName("first"), v_);
  const Output barrier = Neg(worker_, first);
  Identity(worker_.WithOpName("second").WithControlDependencies({barrier}), v_);
  Identity(worker_.WithOpName("third"), v_);
  Partition(/*pushes=*/false);
  const std::string early = Nodes(kWorker, "first")[0].input(0);
  EXPECT_EQ(Nodes(kWorker, "third")[0].input(0), early);
  EXPECT_NE(Nodes(kWorker, "second")[0].input(0), early);
}

TEST_F(PartitionerTest, AValueIsSentOnce) {
  const Output read = Identity(ps_.WithOpName("read"), v_);
  const Output barrier = Neg(worker_, Const(worker_, 1.f));
  Neg(worker_, read);
  Neg(worker_.WithControlDependencies({barrier}), read);
  Partition(/*pushes=*/false);
  EXPECT_THAT(Nodes(kWorker, "read/_recv"), SizeIs(1));
}

// A worker of TensorFlow 1.15 would refuse it.
TEST_F(PartitionerTest, LaterAttributesThatHaveTheirDefaultsAreLeftOut) {
  const Output names = Const(ps_, std::string("a"));
  ps_.WithOpName("merge").Add("MergeV2Checkpoints", {Reshape(ps_, names, Const(ps_, {1})), names});
  Partition(/*pushes=*/false);
  EXPECT_FALSE(Nodes(kPs, "merge")[0].attr().contains("allow_missing_files"));
  EXPECT_TRUE(Nodes(kPs, "merge")[0].attr().contains("delete_old_dirs"));
}

}  // namespace
}  // namespace thalweg
