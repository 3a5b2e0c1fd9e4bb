// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/control_edges.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/state_ops.h"

namespace thalweg {
namespace {

using testing::UnorderedElementsAre;

class ControlEdgesTest : public testing::Test {
 protected:
  Scope On(absl::string_view task) {
    return graph_.root().WithDevice(absl::StrCat("/job:", task, "/replica:0/task:0/device:CPU:0"));
  }
  // A node that waits for others.
  Output Add(absl::string_view task, absl::string_view name, const std::vector<Output>& after = {}) {
    return Const(On(task).WithOpName(name).WithControlDependencies(after), 1.f);
  }
  Output AddNoOp(absl::string_view task, absl::string_view name, const std::vector<Output>& after) {
    return Group(On(task).WithOpName(name), after);
  }
  void Shorten(const std::vector<std::string>& targets = {}) {
    ASSERT_OK(graph_.build_status());
    ASSERT_OK(ShortenControlEdges(graph_, targets));
  }
  std::vector<std::string> ControlInputs(absl::string_view name) const {
    std::vector<std::string> names;
    for (const Node* input : graph_.FindNode(name)->control_inputs()) names.push_back(input->name());
    return names;
  }

  Graph graph_;
};

// As in asynchronous training: the worker's group of all updates, and the global step after it.
TEST_F(ControlEdgesTest, AGroupOnAnotherTaskIsBypassed) {
  const Output a = Add("ps0", "a"), b = Add("ps1", "b"), c = Add("ps1", "c");
  const Output updates = AddNoOp("worker", "updates", {a, b, c});
  Add("ps1", "step", {updates});
  Shorten({"step"});
  EXPECT_THAT(ControlInputs("step"), UnorderedElementsAre("a", "b", "c"));
  EXPECT_EQ(graph_.FindNode("updates"), nullptr);
}

TEST_F(ControlEdgesTest, ChainsOfGroupsAreBypassed) {
  const Output a = Add("ps0", "a"), b = Add("ps1", "b");
  const Output first = AddNoOp("worker", "first", {a, b});
  const Output second = AddNoOp("chief", "second", {first});
  Add("ps1", "step", {second});
  Shorten({"step"});
  EXPECT_THAT(ControlInputs("step"), UnorderedElementsAre("a", "b"));
  EXPECT_EQ(graph_.FindNode("first"), nullptr);
  EXPECT_EQ(graph_.FindNode("second"), nullptr);
}

TEST_F(ControlEdgesTest, ATargetStaysAndStillWaitsForAll) {
  const Output a = Add("ps0", "a"), b = Add("ps1", "b");
  const Output updates = AddNoOp("worker", "updates", {a, b});
  Add("ps1", "step", {updates});
  Shorten({"updates", "step"});
  EXPECT_THAT(ControlInputs("updates"), UnorderedElementsAre("a", "b"));
  EXPECT_THAT(ControlInputs("step"), UnorderedElementsAre("a", "b"));
}

// Three tasks that all wait for three others: nine messages in place of six.
TEST_F(ControlEdgesTest, AGroupThatSavesMessagesStays) {
  const Output all = AddNoOp("worker", "all", {Add("ps0", "a"), Add("ps1", "b"), Add("ps2", "c")});
  for (const char* task : {"w0", "w1", "w2"}) {
    Add(task, task, {all});
  }
  Shorten();
  EXPECT_THAT(ControlInputs("w1"), UnorderedElementsAre("all"));
}

TEST_F(ControlEdgesTest, ASmallValueThatTravelsAnywayIsASignal) {
  const Output a = Add("ps0", "a");
  const Output big = Const(On("ps0").WithOpName("big"), Tensor::Zeros(kFloat, {2000}));
  Identity(On("worker").WithOpName("reads"), a);
  Identity(On("worker").WithOpName("reads_much"), big);
  Add("worker", "x", {a});
  Add("worker", "y", {big});
  Add("ps1", "z", {a});
  Shorten();
  EXPECT_THAT(ControlInputs("x"), UnorderedElementsAre("a/_arrived"));
  EXPECT_TRUE(graph_.FindNode("a/_arrived")->input(0) == a);
  EXPECT_EQ(graph_.FindNode("a/_arrived")->device(), graph_.FindNode("x")->device());
  EXPECT_THAT(ControlInputs("y"), UnorderedElementsAre("big"));
  EXPECT_THAT(ControlInputs("z"), UnorderedElementsAre("a"));
}

TEST_F(ControlEdgesTest, NodesOfOneTaskMeetThere) {
  const Output a = Add("ps0", "a"), b = Add("ps0", "b"), c = Add("ps1", "c"), d = Add("worker", "d");
  Add("worker", "x", {a, b, c, d});
  Add("worker", "y", {b, a});
  Shorten();
  const std::string met = "x/_after";
  EXPECT_THAT(ControlInputs("x"), UnorderedElementsAre(met, "c", "d"));
  EXPECT_THAT(ControlInputs("y"), UnorderedElementsAre(met));
  EXPECT_THAT(ControlInputs(met), UnorderedElementsAre("a", "b"));
  EXPECT_EQ(graph_.FindNode(met)->device(), graph_.FindNode("a")->device());
}

// x, y and z share the signals of a and b.
TEST_F(ControlEdgesTest, SignalsThatAreSharedStay) {
  const Output a = Add("ps0", "a"), b = Add("ps0", "b");
  Add("worker", "x", {a, b});
  Add("worker", "y", {a});
  Add("worker", "z", {b});
  Shorten();
  EXPECT_THAT(ControlInputs("x"), UnorderedElementsAre("a", "b"));
}

TEST_F(ControlEdgesTest, GraphsWithControlFlowStayAsTheyAre) {
  const Output a = Add("ps0", "a"), b = Add("ps1", "b");
  const Output updates = AddNoOp("worker", "updates", {a, b});
  Add("ps1", "step", {updates});
  On("ps0").Add("Switch", {a, Const(On("ps0"), true)});
  Shorten();
  EXPECT_THAT(ControlInputs("step"), UnorderedElementsAre("updates"));
}

}  // namespace
}  // namespace thalweg
