// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/placer.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/scope.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/runtime/subgraph.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

PlacerOptions TwoTasks(bool soft = false) {
  PlacerOptions options{.allow_soft_placement = soft};
  for (const char* name : {"/job:worker/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:0/device:CPU:1",
                           "/job:ps/replica:0/task:0/device:CPU:0"}) {
    options.devices.push_back({*DeviceName::Parse(name)});
  }
  return options;
}

// The decision about one node.
Placed Find(const std::vector<Placed>& placed, const std::string& node) {
  const auto it = std::find_if(placed.begin(), placed.end(), [&](const Placed& p) { return p.node == node; });
  return it == placed.end() ? Placed() : *it;
}

TEST(Placer, PartialNamesAreCompletedByPreference) {
  Graph graph;
  const Scope s = graph.root();
  Const(s.WithOpName("open"), 1.f);
  Const(s.WithDevice("/cpu:1").WithOpName("short"), 1.f);
  Const(s.WithDevice("/job:ps").WithOpName("job"), 1.f);
  Const(s.WithDevice("/job:worker/device:CPU:*").WithOpName("wild"), 1.f);
  const auto placed = Place(graph, TwoTasks());
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(Find(*placed, "open").device, "/job:worker/replica:0/task:0/device:CPU:0");
  EXPECT_EQ(Find(*placed, "open").reason, "default");
  EXPECT_EQ(Find(*placed, "short").device, "/job:worker/replica:0/task:0/device:CPU:1");
  EXPECT_EQ(Find(*placed, "job").device, "/job:ps/replica:0/task:0/device:CPU:0");
  EXPECT_THAT(Find(*placed, "job").reason, HasSubstr("asked for /job:ps"));
  EXPECT_EQ(Find(*placed, "wild").device, "/job:worker/replica:0/task:0/device:CPU:0");
  EXPECT_EQ(graph.FindNode("job")->device(), "/job:ps/replica:0/task:0/device:CPU:0");
  EXPECT_THAT(DescribePlacement(*placed), HasSubstr("job: (Const): /job:ps/replica:0/task:0/device:CPU:0"));
}

TEST(Placer, WhatUsesAVariableByReferenceIsWithIt) {
  Graph graph;
  const Scope s = graph.root();
  Node* v = s.WithDevice("/job:ps").WithOpName("v").Add("VariableV2", {}, {{"shape", Shape()}, {"dtype", kFloat}});
  s.WithOpName("assign").Add("Assign", {v->out(), Const(s, 1.f)});
  Identity(s.WithOpName("read"), v->out());
  const auto placed = Place(graph, TwoTasks());
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(Find(*placed, "assign").device, "/job:ps/replica:0/task:0/device:CPU:0");
  EXPECT_THAT(Find(*placed, "assign").reason, HasSubstr("with 'v'"));
  // A read takes the value: it may be anywhere.
  EXPECT_EQ(Find(*placed, "read").device, "/job:worker/replica:0/task:0/device:CPU:0");
}

TEST(Placer, ColocationWinsOverTheOwnDevice) {
  Graph graph;
  const Scope s = graph.root();
  const Output a = Const(s.WithDevice("/job:ps").WithOpName("a"), 1.f);
  Neg(s.WithDevice("/job:worker").ColocateWith(a).WithOpName("b"), a);
  const auto placed = Place(graph, TwoTasks());
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(Find(*placed, "b").device, "/job:ps/replica:0/task:0/device:CPU:0");
}

TEST(Placer, AReferenceWinsOverTheOwnDevice) {
  Graph graph;
  const Scope s = graph.root();
  Node* v = s.WithDevice("/job:ps").WithOpName("v").Add("VariableV2", {}, {{"shape", Shape()}, {"dtype", kFloat}});
  s.WithDevice("/job:worker").WithOpName("assign").Add("Assign", {v->out(), Const(s, 1.f)});
  const auto placed = Place(graph, TwoTasks());
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(Find(*placed, "assign").device, "/job:ps/replica:0/task:0/device:CPU:0");
}

// As the read of a variable in a loop of another task, with a stack for its
// gradient.
TEST(Placer, AHandleIsUsedWhereItIsFromInLoopsToo) {
  Graph graph;
  const Scope ps = graph.root().WithDevice("/job:ps");
  const Scope worker = graph.root().WithDevice("/job:worker");
  Node* handle = ps.WithOpName("v").Add("VarHandleOp", {}, {{"shape", Shape()}, {"dtype", kFloat}});
  worker.WithOpName("stack").Add("StackV2", {Const(worker, -1)},
                                 {{"elem_type", kFloat}, {"_class", std::vector<std::string>{"loc:@read"}}});
  Node* enter = worker.WithOpName("enter").Add("Enter", {handle->out()}, {{"frame_name", std::string("loop")}});
  worker.WithOpName("read").Add("ReadVariableOp", {enter->out()}, {{"dtype", kFloat}});
  const auto placed = Place(graph, TwoTasks());
  ASSERT_TRUE(placed.ok()) << placed.status();
  for (const char* node : {"v", "enter", "read", "stack"}) {
    EXPECT_EQ(Find(*placed, node).device, "/job:ps/replica:0/task:0/device:CPU:0") << node;
  }
}

TEST(Placer, TwoVariablesOfOneUpdateMustNotContradictEachOther) {
  Graph graph;
  const Scope s = graph.root();
  const auto variable = [&](const char* device) {
    return s.WithDevice(device).Add("VariableV2", {}, {{"shape", Shape()}, {"dtype", kFloat}})->out();
  };
  const Output a = variable("/job:ps"), b = variable("/job:worker");
  const Output x = Const(s, 1.f);
  s.WithOpName("apply").Add("ApplyMomentum", {a, b, x, x, x});
  const absl::Status status = Place(graph, TwoTasks()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'apply'"));
}

TEST(Placer, SoftPlacementStaysInTheTask) {
  Graph graph;
  const Scope s = graph.root();
  Const(s.WithDevice("/job:ps/device:GPU:3").WithOpName("gpu"), 1.f);
  Graph copy = graph.Clone();
  const absl::Status hard = Place(graph, TwoTasks()).status();
  EXPECT_EQ(hard.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(hard.message()), HasSubstr("operation gpu"));
  const auto soft = Place(copy, TwoTasks(true));
  ASSERT_TRUE(soft.ok()) << soft.status();
  EXPECT_EQ(Find(*soft, "gpu").device, "/job:ps/replica:0/task:0/device:CPU:0");
  EXPECT_THAT(Find(*soft, "gpu").reason, HasSubstr("softly replaced"));
}

// The request of one node decides for all nodes that must be together.
TEST(Placer, ADeviceThatIsNotThereNamesTheNodeThatAskedForIt) {
  Graph graph;
  const Scope s = graph.root();
  Node* v = s.WithOpName("v").Add("VariableV2", {}, {{"shape", Shape()}, {"dtype", kFloat}});
  s.WithOpName("init").Add("Assign", {v->out(), Const(s, 1.f)});
  s.WithDevice("/job:ps/task:7").WithOpName("update").Add("AssignAdd", {v->out(), Const(s, 1.f)});
  const absl::Status status = Place(graph, TwoTasks()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("operation update"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/job:ps/task:7"));
}

TEST(Placer, StateIsWhereTheWholeGraphPutsIt) {
  constexpr char kPs[] = "/job:ps/replica:0/task:0/device:CPU:0";
  Graph graph;
  const Scope s = graph.root();
  const auto variable = [&](const char* name) {
    return s.WithOpName(name).Add("VarHandleOp", {}, {{"shape", Shape()}, {"dtype", kFloat}})->out();
  };
  const Output v = variable("v");
  const auto assign = [&](const char* name, const char* device, Output handle) {
    s.WithDevice(device).WithOpName(name).Add("AssignVariableOp", {handle, Const(s, 1.f)});
  };
  assign("init", "", v);
  assign("update", "/job:ps", v);
  assign("elsewhere", "/job:worker/task:7", variable("lost"));
  PlacerOptions options = TwoTasks();
  StatePlacement states;
  states.Update(graph, options);
  options.states = &states;
  // A step has only some of the nodes.
  const auto place = [&](const std::string& target) {
    Graph step = *Extract(graph, {.targets = {target}});
    return Place(step, options);
  };
  for (const char* target : {"init", "update"}) {
    const auto placed = place(target);
    ASSERT_TRUE(placed.ok()) << placed.status();
    EXPECT_EQ(Find(*placed, "v").device, kPs);
    EXPECT_EQ(Find(*placed, "v").reason, "asked for /job:ps");
    EXPECT_EQ(Find(*placed, target).device, kPs);
  }
  EXPECT_THAT(std::string(place("elsewhere").status().message()), HasSubstr("operation elsewhere"));
  // And it stays there, whatever is added.
  assign("moved", "/job:worker/device:CPU:1", v);
  states.Update(graph, options);
  const auto placed = place("moved");
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(Find(*placed, "v").device, kPs);
  EXPECT_EQ(Find(*placed, "moved").device, kPs);
}

TEST(Placer, AMalformedDeviceNamesTheNode) {
  Graph graph;
  const Scope s = graph.root();
  Const(s.WithOpName("bad"), 1.f).node->set_device("/job:");
  const absl::Status status = Place(graph, TwoTasks()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'bad'"));
}

}  // namespace
}  // namespace thalweg
