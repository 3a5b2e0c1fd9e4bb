// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/gradient.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/graph_testlib.h"

namespace thalweg {
namespace {

using absl::StatusCode;
using testing::AnyOf;

// Without kernels there are no numbers: the tests read the expressions that
// were added. OnesLike(y) is where a derivative starts.
class GradientTest : public testing::Test {
 protected:
  GradientTest() { RegisterTestOps(); }

  Output Value(const char* name, DType dtype = kFloat) {
    return s_.WithOpName(name).Add("Placeholder", {}, {{"dtype", dtype}});
  }
  Output Mul(const Output& a, const Output& b) { return s_.Add("Mul", {a, b}); }
  Output Unary(const char* op, const Output& x) { return s_.Add(op, {x}); }
  std::string D(const Output& y, const Output& x) { return Expression(Gradients(s_, {y}, {x})[0].values); }

  Graph graph_;
  const Scope s_ = graph_.root();
};

TEST_F(GradientTest, OfItselfIsOne) {
  const Output x = Value("x");
  EXPECT_EQ(D(x, x), "OnesLike(x)");
}

TEST_F(GradientTest, FollowsTheChain) {
  const Output x = Value("x"), a = Value("a"), b = Value("b");
  EXPECT_EQ(D(Mul(Mul(x, a), b), x), "Mul(Mul(OnesLike(Mul(Mul(x, a), b)), b), a)");
}

// An imported graph may have its nodes in any order. With so many nodes, a quadratic algorithm would take
// minutes.
TEST_F(GradientTest, OfALongChainInReverseOrder) {
  constexpr int kLength = 100'000;
  tensorflow::GraphDef def;
  for (int i = kLength; i >= 0; --i) {
    tensorflow::NodeDef* const node = def.add_node();
    node->set_name(absl::StrCat("n", i));
    node->set_op(i == 0 ? "Placeholder" : "Identity");
    SetAttr(*node, i == 0 ? "dtype" : "T", kFloat);
    if (i > 0) node->add_input(absl::StrCat("n", i - 1));
  }
  ASSERT_THAT(graph_.Import(def), IsOk());
  const auto dx = Gradients(s_, {graph_.FindNode(absl::StrCat("n", kLength))}, {graph_.FindNode("n0")});
  ASSERT_THAT(s_.status(), IsOk());
  EXPECT_EQ(dx[0].values.node->op(), "OnesLike");
}

TEST_F(GradientTest, UsesAddUp) {
  const Output x = Value("x");
  const Output y = s_.WithOpName("y").Add("Mul", {x, x});
  EXPECT_EQ(D(y, x), "AddN(Mul(OnesLike(Mul(x, x)), x), Mul(OnesLike(Mul(x, x)), x))");
}

TEST_F(GradientTest, ADiamondIsSummedOnceBeforeItGoesOn) {
  const Output x = Value("x"), a = Value("a"), b = Value("b");
  const Output top = Mul(x, a);
  const Output left = Unary("Identity", top), right = Mul(top, b);
  const Output left_weight = Value("dl"), right_weight = Value("dr");
  const std::vector<Gradient> d = Gradients(s_, {left, right}, {x, top}, {left_weight, right_weight});
  ASSERT_TRUE(s_.ok()) << s_.status();
  EXPECT_THAT(Expression(d[1].values), AnyOf("AddN(dl, Mul(dr, b))", "AddN(Mul(dr, b), dl)"));
  EXPECT_EQ(Expression(d[0].values), "Mul(" + Expression(d[1].values) + ", a)");
}

TEST_F(GradientTest, WeightsReplaceOnes) {
  const Output x = Value("x"), a = Value("a"), w = Value("w");
  EXPECT_EQ(Expression(Gradients(s_, {Mul(x, a)}, {x}, {w})[0].values), "Mul(w, a)");
  EXPECT_EQ(Expression(Gradients(s_, {Unary("Identity", x)}, {x}, {Output()})[0].values), "OnesLike(Identity(x))");
}

TEST_F(GradientTest, SeveralYsAddUp) {
  const Output x = Value("x"), a = Value("a"), w = Value("w"), v = Value("v");
  EXPECT_THAT(Expression(Gradients(s_, {Mul(x, a), x}, {x}, {w, v})[0].values),
              AnyOf("AddN(v, Mul(w, a))", "AddN(Mul(w, a), v)"));
}

TEST_F(GradientTest, WhatYDoesNotDependOnGetsNone) {
  const Output x = Value("x"), other = Value("other");
  const std::vector<Gradient> d = Gradients(s_, {Unary("Identity", x)}, {other, x});
  EXPECT_FALSE(d[0]);
  EXPECT_TRUE(d[1]);
  EXPECT_TRUE(s_.ok()) << s_.status();
}

TEST_F(GradientTest, OutputsThatWereNotAskedForCountAsZeros) {
  const Output x = Value("x"), w = Value("w");
  Node* two = s_.Add("TwoOutputs", {x});
  EXPECT_EQ(Expression(Gradients(s_, {two->out(1)}, {x}, {w})[0].values), "Join(ZerosLike(TwoOutputs(x)), w)");
}

TEST_F(GradientTest, AnXInTheMiddleIsSummedToo) {
  const Output x = Value("x"), a = Value("a"), w = Value("w");
  const Output middle = Mul(x, a);
  const std::vector<Gradient> d = Gradients(s_, {Unary("Identity", middle)}, {middle, x}, {w});
  EXPECT_EQ(Expression(d[0].values), "w");
  EXPECT_EQ(Expression(d[1].values), "Mul(w, a)");
}

TEST_F(GradientTest, SparseOnesStaySparseUntilTheyMeetADenseOne) {
  const Output table = Value("table"), i = Value("i", kInt32), j = Value("j", kInt32), w = Value("w"), v = Value("v");
  const Output rows = s_.Add("Gather", {table, i}), more = s_.Add("Gather", {table, j});
  const Gradient one = Gradients(s_, {rows}, {table}, {w})[0];
  EXPECT_TRUE(one.sparse());
  EXPECT_EQ(Expression(one.values), "w");
  EXPECT_EQ(Expression(one.indices), "i");
  EXPECT_EQ(Expression(one.dense_shape), "Shape(table)");

  const Gradient both = Gradients(s_, {rows, more}, {table}, {w, v})[0];
  EXPECT_TRUE(both.sparse());
  EXPECT_THAT(Expression(both.values), testing::StartsWith("ConcatV2("));
  EXPECT_THAT(Expression(both.values), testing::AllOf(testing::HasSubstr("w"), testing::HasSubstr("v")));
  const bool w_first = Expression(both.values).find("(w, v,") != std::string::npos;
  EXPECT_THAT(Expression(both.indices), testing::HasSubstr(w_first ? "(i, j," : "(j, i,"))
      << "in the order of the values";

  const Gradient mixed = Gradients(s_, {rows, table}, {table}, {w, v})[0];
  ASSERT_TRUE(s_.ok()) << s_.status();
  EXPECT_FALSE(mixed.sparse());
  EXPECT_THAT(Expression(mixed.values), testing::HasSubstr("UnsortedSegmentSum(w, i, StridedSlice(Shape(table)"));
  EXPECT_THAT(Expression(mixed.values), testing::StartsWith("AddN("));
}

TEST_F(GradientTest, FunctionsSeeSparseOnesAsDense) {
  const Output table = Value("table"), a = Value("a"), i = Value("i", kInt32), w = Value("w");
  const Output product = Mul(table, a);
  const Gradient d = Gradients(s_, {s_.Add("Gather", {product, i})}, {table}, {w})[0];
  EXPECT_FALSE(d.sparse());
  EXPECT_THAT(Expression(d.values), testing::StartsWith("Mul(UnsortedSegmentSum(w, i, "));
}

TEST_F(GradientTest, DenseIsWhatADenseOneIs) {
  const Output x = Value("x");
  EXPECT_EQ(ToDense(s_, Gradient(x)), x);
}

TEST_F(GradientTest, VariablesHaveOne) {
  const Output v = s_.WithOpName("v").Add("VariableV2", {}, {{"dtype", kFloat}, {"shape", Shape()}});
  const Output a = Value("a"), w = Value("w");
  EXPECT_EQ(Expression(Gradients(s_, {Mul(Unary("Identity", v), a)}, {v}, {w})[0].values), "Mul(w, a)");
}

TEST_F(GradientTest, AnOpWithoutOneIsAnErrorThatNamesIt) {
  const Output x = Value("x");
  const Output y = s_.WithOpName("culprit").Add("NoGradient", {x});
  EXPECT_FALSE(Gradients(s_, {Unary("Identity", y)}, {x})[0]);
  EXPECT_THAT(s_.status(), Fails(StatusCode::kUnimplemented, "'culprit' (op type: NoGradient)"));
}

TEST_F(GradientTest, AnOpWithoutOneDoesNotMatterOffThePath) {
  const Output x = Value("x"), other = Value("other");
  const Output y = Mul(Unary("Identity", x), Unary("NoGradient", other));
  EXPECT_TRUE(Gradients(s_, {y}, {x})[0]);
  EXPECT_TRUE(s_.ok()) << s_.status();
}

TEST_F(GradientTest, WhatIsNotDifferentiableStops) {
  const Output x = Value("x"), w = Value("w");
  EXPECT_FALSE(Gradients(s_, {Unary("Stops", x)}, {x})[0]);
  EXPECT_EQ(Expression(Gradients(s_, {Mul(Unary("Stops", x), x)}, {x}, {w})[0].values), "Mul(w, Stops(x))");
  EXPECT_TRUE(s_.ok()) << s_.status();
}

TEST_F(GradientTest, IntegersCarryNone) {
  const Output x = Value("x", kInt32), y = Mul(x, x);
  const Output f = Value("f");
  const Output rows = s_.Add("Gather", {f, y});
  EXPECT_FALSE(Gradients(s_, {rows}, {x})[0]);
  EXPECT_TRUE(s_.ok()) << s_.status();
}

TEST_F(GradientTest, AFailureOfAFunctionNamesTheNode) {
  const Output x = Value("x");
  EXPECT_FALSE(Gradients(s_, {s_.WithOpName("bad").Add("FailingGradient", {x})}, {x})[0]);
  EXPECT_THAT(s_.status(), Fails(StatusCode::kInternal, "gradient of 'bad': no luck"));
}

TEST_F(GradientTest, AnUnknownOpHasNone) {
  ASSERT_THAT(graph_.Import(ParseGraph(R"pb(
    node {
      name: "x"
      op: "Placeholder"
      attr {
        key: "dtype"
        value { type: DT_FLOAT }
      }
    }
    node { name: "alien" op: "Martian" input: "x" }
    node {
      name: "y"
      op: "Identity"
      input: "alien"
      attr {
        key: "T"
        value { type: DT_FLOAT }
      }
    }
  )pb")),
              IsOk());
  Gradients(s_, {graph_.FindNode("y")}, {graph_.FindNode("x")});
  EXPECT_THAT(s_.status(), Fails(StatusCode::kUnimplemented, "'alien' (op type: Martian)"));
}

TEST_F(GradientTest, MissingTensorsAreAnError) {
  EXPECT_EQ(Gradients(s_, {Output()}, {Value("x")}).size(), 1);
  EXPECT_THAT(s_.status(), Fails(StatusCode::kInvalidArgument, "a tensor is missing"));
}

TEST_F(GradientTest, TensorsOfAnotherGraphAreAnError) {
  Graph other;
  const Output x = Value("x"), alien = other.root().WithOpName("alien").Add("Placeholder", {}, {{"dtype", kFloat}});
  EXPECT_EQ(Gradients(s_, {x}, {alien}).size(), 1);
  EXPECT_THAT(s_.status(), Fails(StatusCode::kInvalidArgument, "Gradients: tensor 'alien:0' belongs to another graph"));
}

TEST_F(GradientTest, WeightsOfAnotherGraphAreAnError) {
  Graph other;
  const Output x = Value("x"), alien = other.root().WithOpName("alien").Add("Placeholder", {}, {{"dtype", kFloat}});
  Gradients(s_, {x}, {x}, {alien});
  EXPECT_THAT(s_.status(), Fails(StatusCode::kInvalidArgument, "Gradients: tensor 'alien:0' belongs to another graph"));
}

TEST_F(GradientTest, AnEarlierErrorStays) {
  const Output x = Value("x");
  s_.Add("Martian");
  EXPECT_FALSE(Gradients(s_, {x}, {x})[0]);
  EXPECT_THAT(s_.status(), Fails(StatusCode::kNotFound, "Martian"));
}

TEST_F(GradientTest, WhatIsAddedSaysWhereItBelongs) {
  const Output x = Value("x"), a = Value("a");
  const Output y = s_.WithOpName("y").Add("Mul", {x, a});
  const Gradient d = Gradients(s_, {y}, {x})[0];
  EXPECT_EQ(d.values.node->name(), "gradients/y_grad/Mul");
  EXPECT_THAT(*GetAttr<std::vector<std::string>>(d.values.node->def(), "_class"), testing::ElementsAre("loc:@y"));
}

}  // namespace
}  // namespace thalweg
