// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/gradient.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/runtime/session_testlib.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// cond(p): x + 1 if p else x * 10
Output Cond(const Scope& s, Output p, Output x) {
  Node* sw = s.Add("Switch", {x, p});
  const Output no = Mul(s, sw->out(0), Const(s.WithControlDependencies({Identity(s, sw->out(0))}), 10.f));
  const Output yes = Add(s, sw->out(1), Const(s.WithControlDependencies({Identity(s, sw->out(1))}), 1.f));
  return s.Add("Merge", {std::vector<Output>{no, yes}});
}

TEST(ControlFlow, Conditionals) {
  Graph graph;
  const Scope s = graph.root();
  const Output p = Placeholder(s, kBool, Shape());
  const Output x = Placeholder(s, kFloat, Shape());
  const Output y = Cond(s, p, x);
  const Output twice = Cond(s, p, y);  // deadness is set anew
  ASSERT_OK(s.status());
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
  for (int round = 0; round < 3; ++round) {
    ASSERT_OK_AND_ASSIGN(const auto yes,
                         session->Run({y, twice}, {{p, Tensor::Scalar(true)}, {x, Tensor::Scalar(3.f)}}));
    EXPECT_EQ(yes[0].scalar<float>(), 4);
    EXPECT_EQ(yes[1].scalar<float>(), 5);
    ASSERT_OK_AND_ASSIGN(const auto no,
                         session->Run({y, twice}, {{p, Tensor::Scalar(false)}, {x, Tensor::Scalar(3.f)}}));
    EXPECT_EQ(no[0].scalar<float>(), 30);
    EXPECT_EQ(no[1].scalar<float>(), 300);
  }
}

TEST(ControlFlow, TheGradientOfAConditionalFollowsTheBranch) {
  Graph graph;
  const Scope s = graph.root();
  const Output p = Placeholder(s, kBool, Shape());
  const Output x = Placeholder(s, kFloat, Shape());
  const std::vector<Gradient> dx = Gradients(s, {Cond(s, p, x)}, {x});
  ASSERT_OK(s.status());
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
  ASSERT_OK_AND_ASSIGN(const auto yes,
                       session->Run({dx[0].values}, {{p, Tensor::Scalar(true)}, {x, Tensor::Scalar(3.f)}}));
  EXPECT_EQ(yes[0].scalar<float>(), 1);
  ASSERT_OK_AND_ASSIGN(const auto no,
                       session->Run({dx[0].values}, {{p, Tensor::Scalar(false)}, {x, Tensor::Scalar(3.f)}}));
  EXPECT_EQ(no[0].scalar<float>(), 10);
}

// y = (p ? 3 v : v * v), of which v goes through as a variable that could be assigned.
TEST(ControlFlow, TheGradientOfAVariableThatGoesThroughABranch) {
  Graph graph;
  const Scope s = graph.root();
  const Output p = Placeholder(s, kBool, Shape());
  Node* const v = s.Add("VariableV2", {}, {{"shape", Shape({2})}, {"dtype", kFloat}});
  const Output init = s.Add("Assign", {v->out(), Const(s, {3.f, 5.f})});
  const Output same = s.Add("RefIdentity", {v->out()});
  Node* const sw = s.Add("RefSwitch", {same, p});
  const Output no = Mul(s, sw->out(0), sw->out(0)), yes = Mul(s, sw->out(1), Const(s, 3.f));
  const Output y = s.Add("Merge", {std::vector<Output>{no, yes}});
  // The branches meet as variables, too.
  Node* const both = s.Add("RefMerge", {std::vector<Output>{sw->out(0), sw->out(1)}});
  const Output z = Mul(s, both->out(0), both->out(0));
  const std::vector<Gradient> dy = Gradients(s, {y}, {v->out()}), dz = Gradients(s, {z}, {v->out()});
  ASSERT_OK(s.status());
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
  ASSERT_OK(session->Run({init}));
  for (const bool taken : {true, false}) {
    SCOPED_TRACE(taken);
    ASSERT_OK_AND_ASSIGN(const auto values, session->Run({dy[0].values, dz[0].values}, {{p, Tensor::Scalar(taken)}}));
    EXPECT_THAT(values[0].flat<float>(), taken ? ElementsAre(3, 3) : ElementsAre(6, 10));
    EXPECT_THAT(values[1].flat<float>(), ElementsAre(6, 10));
  }
}

// A branch that is not taken reads no variables: they may be uninitialized.
TEST(ControlFlow, WhatIsDeadByAControlEdgeReadsNoVariable) {
  Graph graph;
  const Scope s = graph.root();
  const Output p = Placeholder(s, kBool, Shape());
  Node* v = s.WithOpName("v").Add("VariableV2", {}, {{"shape", Shape()}, {"dtype", kFloat}});
  Node* sw = s.Add("Switch", {Const(s, 1.f), p});
  const Output taken = Identity(s, sw->out(1));
  const Output negated = s.WithControlDependencies({taken}).Add("Neg", {v->out()});
  const Output y = s.Add("Merge", {std::vector<Output>{negated, sw->out(0)}});
  // One that waits, and a loop that it leads to.
  const Output waits = s.WithControlDependencies({taken}).Add("TestGate", {v->out()});
  const Output z = s.Add("Merge", {std::vector<Output>{waits, sw->out(0)}});
  const Output entered =
      s.WithControlDependencies({taken}).Add("Enter", {v->out()}, {{"frame_name", std::string("loop")}});
  const Output left = s.Add("Exit", {entered});
  const Output u = s.Add("Merge", {std::vector<Output>{left, sw->out(0)}});
  ASSERT_OK(s.status());
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
  for (const Output& result : {y, z, u}) {
    const auto out = session->Run({result}, {{p, Tensor::Scalar(false)}});
    ASSERT_OK(out.status());
    EXPECT_EQ(out->at(0).scalar<float>(), 1);
  }
  EXPECT_THAT(session->Run({y}, {{p, Tensor::Scalar(true)}}),
              Fails(absl::StatusCode::kFailedPrecondition, "uninitialized value v"));
}

TEST(ControlFlow, FetchingADeadTensorIsAnError) {
  Graph graph;
  const Scope s = graph.root();
  const Output p = Placeholder(s, kBool, Shape());
  Node* sw = s.Add("Switch", {Const(s, 1.f), p});
  const Output y = Neg(s, sw->out(1));
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
  const absl::Status status = session->Run({y}, {{p, Tensor::Scalar(false)}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Neg:0 was not valid"));
  ASSERT_OK(session->Run({y}, {{p, Tensor::Scalar(true)}}).status());
}

TEST(ControlFlow, Loops) {
  tensorflow::GraphDef def;
  AddConst(def, "zero", Tensor::Scalar<int32_t>(0));
  AddConst(def, "start", Tensor::Scalar<float>(100));
  SetAttr(*AddDef(def, "n", "Placeholder", {}), "dtype", kInt32);
  AddLoop(def, "w", "zero", "start", "n", [&](const std::string& i) {
    AddCast(def, "w/term", i);
    return "w/term";
  });
  Graph graph;
  ASSERT_OK(graph.Import(def));
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
  for (const int n : {0, 1, 2, 10, 1000}) {
    ASSERT_OK_AND_ASSIGN(const auto out, session->Run({"w/exit_acc:0"}, {{"n:0", Tensor::Scalar<int32_t>(n)}}));
    EXPECT_EQ(out[0].scalar<float>(), 100.f + n * (n - 1) / 2) << n;
  }
}

// Like the gradient of a loop invariant: the next value is a constant, and only a control input makes
// it dead after the last iteration.
TEST(ControlFlow, AConstantThatComesRoundEndsWithTheLoop) {
  tensorflow::GraphDef def;
  AddConst(def, "zero", Tensor::Scalar<int32_t>(0));
  AddConst(def, "start", Tensor::Scalar<float>(100));
  AddConst(def, "constant", Tensor::Scalar<float>(7));
  AddConst(def, "n", Tensor::Scalar<int32_t>(3));
  AddLoop(def, "w", "zero", "start", "n", [&](const std::string& i) {
    for (const bool is_constant : {false, true}) {
      tensorflow::NodeDef* enter =
          AddDef(def, is_constant ? "w/k" : "w/enter_z", "Enter", {is_constant ? "constant" : "start"});
      SetAttr(*enter, "T", kFloat);
      SetAttr(*enter, "frame_name", std::string("w"));
      SetAttr(*enter, "is_constant", is_constant);
    }
    AddTyped(def, "w/merge_z", "Merge", {"w/enter_z", "w/next_z"}, kFloat);
    SetAttr(*def.mutable_node(def.node_size() - 1), "N", 2);
    AddTyped(def, "w/switch_z", "Switch", {"w/merge_z", "w/cond"}, kFloat);
    AddTyped(def, "w/exit_z", "Exit", {"w/switch_z"}, kFloat);
    AddTyped(def, "w/next_z", "NextIteration", {"w/k", "^" + i}, kFloat);
    AddCast(def, "w/term", i);
    return "w/term";
  });
  Graph graph;
  ASSERT_OK(graph.Import(def));
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({"w/exit_z:0"}, {}, {.timeout = absl::Seconds(10)}));
  EXPECT_EQ(out[0].scalar<float>(), 7);
}

TEST(ControlFlow, NestedLoops) {
  // sum over i < n of sum over j < i of j
  tensorflow::GraphDef def;
  AddConst(def, "zero", Tensor::Scalar<int32_t>(0));
  AddConst(def, "start", Tensor::Scalar<float>(0));
  SetAttr(*AddDef(def, "n", "Placeholder", {}), "dtype", kInt32);
  AddLoop(def, "outer", "zero", "start", "n", [&](const std::string& i) {
    AddConst(def, "outer/zero_i", Tensor::Scalar<int32_t>(0), {"^outer/pivot"});
    AddConst(def, "outer/zero_f", Tensor::Scalar<float>(0), {"^outer/pivot"});
    AddLoop(def, "inner", "outer/zero_i", "outer/zero_f", i, [&](const std::string& j) {
      AddCast(def, "inner/term", j);
      return "inner/term";
    });
    return "inner/exit_acc";
  });
  Graph graph;
  ASSERT_OK(graph.Import(def));
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
  for (const int n : {0, 1, 2, 3, 7, 20}) {
    float expected = 0;
    for (int i = 0; i < n; ++i) expected += static_cast<float>(i * (i - 1) / 2);
    ASSERT_OK_AND_ASSIGN(const auto out, session->Run({"outer/exit_acc:0"}, {{"n:0", Tensor::Scalar<int32_t>(n)}}));
    EXPECT_EQ(out[0].scalar<float>(), expected) << n;
  }
}

TEST(ControlFlow, ALoopThatWaitsGoesOn) {
  // Each iteration passes a gate that the test opens from its own thread.
  tensorflow::GraphDef def;
  AddConst(def, "zero", Tensor::Scalar<int32_t>(0));
  AddConst(def, "start", Tensor::Scalar<float>(0));
  AddConst(def, "n", Tensor::Scalar<int32_t>(5));
  AddLoop(def, "w", "zero", "start", "n", [&](const std::string& i) {
    AddCast(def, "w/cast", i);
    AddTyped(def, "w/gate", "TestGate", {"w/cast"}, kFloat);
    return "w/gate";
  });
  Graph graph;
  ASSERT_OK(graph.Import(def));
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
  std::vector<std::unique_ptr<Gate>> gates;
  for (int i = 0; i < 6; ++i) gates.push_back(std::make_unique<Gate>());
  the_gate = gates[0].get();
  std::thread opener([&] {
    for (int i = 0; i < 5; ++i) {
      gates[i]->entered.WaitForNotification();
      the_gate = gates[i + 1].get();
      gates[i]->done(absl::OkStatus());
    }
  });
  const auto out = session->Run({"w/exit_acc:0"});
  opener.join();
  ASSERT_OK(out.status());
  EXPECT_EQ((*out)[0].scalar<float>(), 0 + 1 + 2 + 3 + 4);
}

TEST(ControlFlow, ATimeoutEndsALoopWithoutEnd) {
  tensorflow::GraphDef def;
  AddConst(def, "zero", Tensor::Scalar<int32_t>(0));
  AddConst(def, "start", Tensor::Scalar<float>(0));
  AddConst(def, "n", Tensor::Scalar<int32_t>(2000000000));
  AddLoop(def, "w", "zero", "start", "n", [&](const std::string& i) {
    AddCast(def, "w/term", i);
    return "w/term";
  });
  Graph graph;
  ASSERT_OK(graph.Import(def));
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
  const absl::Status status = session->Run({"w/exit_acc:0"}, {}, {.timeout = absl::Milliseconds(50)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
}

}  // namespace
}  // namespace thalweg
