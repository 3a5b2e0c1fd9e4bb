// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/scope.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/graph_testlib.h"

namespace thalweg {
namespace {

using absl::StatusCode;
using tensorflow::NodeDef;
using testing::ElementsAre;
using testing::IsEmpty;

class ScopeTest : public testing::Test {
 protected:
  ScopeTest() { RegisterTestOps(); }

  static Node* Value(const Scope& s, DType dtype = kFloat) { return s.Add("Placeholder", {}, {{"dtype", dtype}}); }

  Graph graph_;
  const Scope root_ = graph_.root();
};

TEST_F(ScopeTest, NamesAreTheOpOrAsAskedMadeUnique) {
  EXPECT_EQ(Value(root_)->name(), "Placeholder");
  EXPECT_EQ(Value(root_)->name(), "Placeholder_1");
  EXPECT_EQ(Value(root_.WithOpName("x"))->name(), "x");
  EXPECT_EQ(Value(root_.WithOpName("x"))->name(), "x_1");
}

TEST_F(ScopeTest, SubScopesNestAndAreUnique) {
  const Scope layer = root_.SubScope("layer");
  EXPECT_EQ(Value(layer.WithOpName("w"))->name(), "layer/w");
  EXPECT_EQ(Value(layer.SubScope("inner"))->name(), "layer/inner/Placeholder");
  EXPECT_EQ(Value(layer.WithOpName("w").SubScope("s"))->name(), "layer/s/Placeholder") << "the name was for outside";
  EXPECT_EQ(Value(root_.SubScope("layer").WithOpName("w"))->name(), "layer_1/w");
  EXPECT_EQ(Value(root_.WithOpName("layer"))->name(), "layer_2");
}

TEST_F(ScopeTest, DevicesNest) {
  const Scope ps = root_.WithDevice("/job:ps/task:1");
  EXPECT_EQ(Value(root_)->device(), "");
  EXPECT_EQ(Value(ps)->device(), "/job:ps/task:1");
  EXPECT_EQ(Value(ps.WithDevice("/cpu:0"))->device(), "/job:ps/task:1/device:CPU:0");
  EXPECT_EQ(Value(ps.WithDevice("/task:2").WithDevice("/job:worker"))->device(), "/job:worker/task:2");
  EXPECT_EQ(Value(ps.SubScope("s").WithOpName("x"))->device(), "/job:ps/task:1");
}

TEST_F(ScopeTest, DeviceFunctionsSeeTheOperation) {
  const Scope s = root_.WithDevice("/task:3").WithDevice([](const NewOperation& def) -> std::string {
    if (def.op() == "VariableV2") return "/job:ps";
    return def.name() == "nowhere" ? "" : "/job:worker";
  });
  EXPECT_EQ(s.Add("VariableV2", {}, {{"dtype", kFloat}, {"shape", Shape()}})->device(), "/job:ps/task:3");
  EXPECT_EQ(Value(s)->device(), "/job:worker/task:3");
  EXPECT_EQ(Value(s.WithOpName("nowhere"))->device(), "/task:3");
  EXPECT_EQ(Value(s.WithDevice("/job:chief"))->device(), "/job:chief/task:3") << "the inner one wins";
}

TEST_F(ScopeTest, DeviceFunctionsSeeAttrs) {
  const Scope s =
      root_.WithDevice([](const NewOperation& def) { return *def.Attr<DType>("T") == kFloat ? "/cpu:1" : "/cpu:2"; });
  const Output a = Value(root_), b = Value(root_, kInt32);
  EXPECT_EQ(s.Add("Identity", {a})->device(), "/device:CPU:1");
  EXPECT_EQ(s.Add("Identity", {b})->device(), "/device:CPU:2");
}

TEST_F(ScopeTest, DeviceFunctionsSeeWhatInnerScopesAskFor) {
  const Scope s =
      root_.WithDevice([](const NewOperation& def) { return def.device() == "/job:ps" ? "/task:2" : "/task:1"; });
  EXPECT_EQ(Value(s)->device(), "/task:1");
  EXPECT_EQ(Value(s.WithDevice("/job:ps"))->device(), "/job:ps/task:2");
}

TEST_F(ScopeTest, AMalformedDeviceIsTheError) {
  EXPECT_EQ(Value(root_.WithDevice("/jobs:ps:0:1")), nullptr);
  EXPECT_THAT(root_.status(), Fails(StatusCode::kInvalidArgument, "'/jobs:ps:0:1'"));
}

TEST_F(ScopeTest, ControlDependenciesAddUp) {
  Node* const a = Value(root_);
  Node* const b = Value(root_);
  const Scope after_a = root_.WithControlDependencies({a});
  EXPECT_THAT(Value(after_a)->control_inputs(), ElementsAre(a));
  EXPECT_THAT(Value(after_a.SubScope("s").WithControlDependencies({b, a}))->control_inputs(), ElementsAre(a, b));
  EXPECT_THAT(Value(after_a.WithoutControlDependencies())->control_inputs(), IsEmpty());
  EXPECT_THAT(Value(root_)->control_inputs(), IsEmpty());
}

TEST_F(ScopeTest, ColocationNamesTheOther) {
  const Output a = Value(root_.WithOpName("a")), b = Value(root_.WithOpName("b"));
  const auto classes = [](const Node* node) { return *GetAttr<std::vector<std::string>>(node->def(), "_class"); };
  EXPECT_THAT(classes(Value(root_.ColocateWith(a))), ElementsAre("loc:@a"));
  EXPECT_THAT(classes(Value(root_.ColocateWith(a).ColocateWith(b))), ElementsAre("loc:@a", "loc:@b"));
  EXPECT_FALSE(HasAttr(Value(root_)->def(), "_class"));
}

TEST_F(ScopeTest, AttrsFollowFromTheInputs) {
  const Output a = Value(root_, kInt32), f = Value(root_), d = Value(root_, kDouble);
  Node* lists = root_.Add("Lists", {std::vector<Output>{a, a}, std::vector<Output>{f, d}});
  ASSERT_NE(lists, nullptr) << root_.status();
  EXPECT_EQ(*GetAttr<int64_t>(lists->def(), "N"), 2);
  EXPECT_EQ(*GetAttr<DType>(lists->def(), "T"), kInt32);
  EXPECT_THAT(*GetAttr<std::vector<DType>>(lists->def(), "Tb"), ElementsAre(kFloat, kDouble));
  EXPECT_THAT(lists->output_types(), ElementsAre(kFloat, kFloat, kFloat, kDouble));
  Node* none = root_.Add("Lists", {std::vector<Output>{}, std::vector<Output>{}}, {{"T", kBool}});
  ASSERT_NE(none, nullptr) << root_.status();
  EXPECT_EQ(none->num_outputs(), 0);
}

TEST_F(ScopeTest, AVariableGivesTheTypeOfItsValue) {
  const Output v = root_.Add("VariableV2", {}, {{"dtype", kDouble}, {"shape", Shape()}});
  Node* assign = root_.Add("Assign", {v, v});
  ASSERT_NE(assign, nullptr) << root_.status();
  EXPECT_EQ(*GetAttr<DType>(assign->def(), "T"), kDouble);
}

TEST_F(ScopeTest, TheFirstErrorWinsAndWhatFollowsIsNull) {
  const Output a = Value(root_, kInt32), b = Value(root_);
  const int before = graph_.num_nodes();
  const Output bad = root_.SubScope("s").Add("Mul", {a, b});
  EXPECT_EQ(bad.node, nullptr);
  EXPECT_THAT(root_.status(), Fails(StatusCode::kInvalidArgument, "Input 1 of node s/Mul was passed float"));
  const absl::Status first = graph_.build_status();
  EXPECT_EQ(root_.Add("Martian"), nullptr);
  EXPECT_EQ(root_.Add("Identity", {bad}), nullptr);
  EXPECT_EQ(Value(root_.WithControlDependencies({bad}).ColocateWith(bad)), nullptr);
  root_.Fail(Internal("later"));
  EXPECT_EQ(graph_.build_status(), first);
  EXPECT_FALSE(root_.ok());
  EXPECT_EQ(graph_.num_nodes(), before);
}

TEST_F(ScopeTest, WhatIsOfAnotherGraphIsRefused) {
  Graph other;
  const Output x = Value(other.root().WithOpName("x"));
  const auto error = [&](auto build) {
    Graph graph;
    const Scope s = graph.root();
    Value(s.WithOpName("x"));
    build(s);
    return s.status();
  };
  EXPECT_THAT(error([&](const Scope& s) { s.Add("Identity", {x}); }),
              Fails(StatusCode::kInvalidArgument, "tensor 'x:0' belongs to another graph"));
  EXPECT_THAT(error([&](const Scope& s) { Value(s.WithControlDependencies({x})); }),
              Fails(StatusCode::kInvalidArgument, "'x' belongs to another graph"));
  EXPECT_THAT(error([&](const Scope& s) { Value(s.ColocateWith(x)); }),
              Fails(StatusCode::kInvalidArgument, "'x' belongs to another graph"));
}

TEST_F(ScopeTest, TheGraphsSeedIsForOpsThatHaveNone) {
  const auto seeds = [](const Scope& s, std::vector<AttrArg> attrs = {}) {
    const Node* const node = s.Add("Random", {}, std::move(attrs));
    return std::make_pair(*GetAttr<int64_t>(node->def(), "seed"), *GetAttr<int64_t>(node->def(), "seed2"));
  };
  using Seeds = std::pair<int64_t, int64_t>;
  EXPECT_EQ(seeds(root_), Seeds(0, 0));
  graph_.set_seed(7);
  EXPECT_EQ(seeds(root_), Seeds(7, 0));
  Value(root_);
  EXPECT_EQ(seeds(root_), Seeds(7, 1)) << "counts ops with seeds only";
  EXPECT_EQ(seeds(root_, {{"seed", 1}, {"seed2", 0}}), Seeds(1, 0));
  EXPECT_EQ(seeds(root_, {{"seed", 0}, {"seed2", 0}}), Seeds(7, 2));
  EXPECT_EQ(seeds(graph_.Clone().root()), Seeds(7, 3));
  graph_.set_seed(-3);
  EXPECT_EQ(seeds(root_), Seeds(2147483644, 3));
}

TEST_F(ScopeTest, SeedsAreNeverBothZero) {
  using Seeds = std::pair<int64_t, int64_t>;
  EXPECT_EQ(SeedPair(0, 0), Seeds(0, 2147483647));
  EXPECT_EQ(SeedPair(0, 5), Seeds(0, 5));
  EXPECT_EQ(SeedPair(int64_t{1} << 31, int64_t{1} << 33), Seeds(1, 4));
}

TEST(ScopeErrors, SayWhatIsWrong) {
  RegisterTestOps();
  const auto error = [](auto build) {
    Graph graph;
    const Scope s = graph.root();
    build(s);
    EXPECT_EQ(graph.num_nodes(), 0);
    return s.status();
  };
  EXPECT_THAT(error([](const Scope& s) { s.Add("Martian"); }),
              Fails(StatusCode::kNotFound, "Op type not registered 'Martian'"));
  EXPECT_THAT(error([](const Scope& s) { s.Add("Mul", {Output()}); }),
              Fails(StatusCode::kInvalidArgument, "Mul takes 2 arguments, got 1"));
  EXPECT_THAT(error([](const Scope& s) {
                s.Add("Mul", {Output(), Output()});
              }),
              Fails(StatusCode::kInvalidArgument, "Mul: argument 'x' is missing"));
  EXPECT_THAT(error([](const Scope& s) { s.Add("Placeholder"); }),
              Fails(StatusCode::kInvalidArgument, "missing attr 'dtype'"));
  EXPECT_THAT(error([](const Scope& s) {
                s.Add("NoOp", {}, {{"speed", 1}});
              }),
              Fails(StatusCode::kInvalidArgument, "'speed'"));
  EXPECT_THAT(error([](const Scope& s) { s.Fail(Aborted("mine")); }), Fails(StatusCode::kAborted, "mine"));
}

}  // namespace
}  // namespace thalweg
