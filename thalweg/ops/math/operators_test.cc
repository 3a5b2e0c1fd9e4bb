// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/operators.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"

namespace thalweg {
namespace {

class OperatorsTest : public testing::Test {
 protected:
  Graph graph_;
  const Scope s_ = graph_.root();
  const Output x_ = Placeholder(s_.WithOpName("x"), kFloat, {2, 3});
  const Output y_ = Placeholder(s_.WithOpName("y"), kFloat, {3});
};

TEST_F(OperatorsTest, AreTheFunctionsOfTheirNames) {
  EXPECT_EQ(Expression(x_ * y_ + x_), "AddV2(Mul(x, y), x)");
  EXPECT_EQ(Expression(-(x_ - y_) / y_), "Div(Neg(Sub(x, y)), y)");
  EXPECT_EQ(Expression(x_ < y_), "Less(x, y)");
  EXPECT_EQ(Expression(x_ <= y_), "LessEqual(x, y)");
  EXPECT_EQ(Expression(x_ > y_), "Greater(x, y)");
  EXPECT_EQ(Expression(x_ >= y_), "GreaterEqual(x, y)");
  EXPECT_EQ(Expression(x_ % y_), "TruncateMod(x, y)");
  EXPECT_EQ((x_ * y_).shape().ToString(), "[2,3]");
  EXPECT_EQ((x_ < 1).dtype(), kBool);
  ASSERT_OK(s_.status());
}

TEST_F(OperatorsTest, HandlesAreStillCompared) {
  EXPECT_TRUE(x_ == x_);
  EXPECT_TRUE(x_ != y_);
  EXPECT_EQ(graph_.num_nodes(), 2) << "no operation was added";
}

TEST_F(OperatorsTest, NumbersTakeTheTypeOfTheTensor) {
  for (const DType dtype : {kFloat, kDouble, kHalf, kBfloat16, kInt32, kInt64, kUint8, kComplex64}) {
    const Output x = Placeholder(s_, dtype, {2});
    EXPECT_EQ((x + 1).dtype(), dtype);
    EXPECT_EQ((2 * x).dtype(), dtype);
    EXPECT_EQ((x - 3.0f).dtype(), dtype);
    EXPECT_EQ((1.0 / x).dtype(), dtype);
  }
  ASSERT_OK(s_.status());
  const Output sum = x_ + 1.5;
  EXPECT_EQ(sum.node->input(1).dtype(), kFloat);
  EXPECT_EQ(sum.node->input(1).shape().rank(), 0);
}

TEST_F(OperatorsTest, ANumberThatDoesNotFitIsAnError) {
  const Output bytes = Placeholder(s_, kUint8, {2});
  EXPECT_FALSE(bytes + 300);
  EXPECT_THAT(s_.status(), Fails(absl::StatusCode::kInvalidArgument, "the number 300 beside a tensor is not a uint8"));
  Graph other;
  const Output ints = Placeholder(other.root(), kInt32, {2});
  EXPECT_FALSE(ints * 0.5);
  EXPECT_THAT(other.build_status(), Fails(absl::StatusCode::kInvalidArgument, "0.5"));
  EXPECT_FALSE(ints + 1) << "after an error nothing is added";
  Graph text;
  EXPECT_FALSE(Placeholder(text.root(), kString, {2}) + 1);
  EXPECT_FALSE(text.build_status().ok());
}

TEST_F(OperatorsTest, CompoundAssignmentNamesTheResult) {
  Output y = x_;
  y *= y_;
  y += 1;
  y -= x_;
  y /= 2;
  EXPECT_EQ(y.node->op(), "Div");
  EXPECT_EQ(y.node->input(0).node->op(), "Sub");
  ASSERT_OK(s_.status());
}

TEST_F(OperatorsTest, AddInTheScopeOfTheOperandThatCameLast) {
  const Scope tower = s_.SubScope("tower").WithDevice("/device:CPU:1");
  const Output inner = Identity(tower, x_);
  EXPECT_EQ((x_ * inner).node->name(), "tower/Mul");
  EXPECT_EQ((inner * x_).node->device(), "/device:CPU:1");
  EXPECT_EQ((inner + 1).node->name(), "tower/AddV2");
  EXPECT_EQ((inner + 1).node->input(1).node->device(), "/device:CPU:1") << "its constant, too";
  EXPECT_EQ((x_ * y_).node->name(), "Mul") << "both are of the root";
  EXPECT_EQ((x_ * y_).node->device(), "");
  const Scope functions =
      s_.WithDevice([](const NewOperation& op) { return op.op() == "Mul" ? "/task:1" : "/task:2"; });
  EXPECT_EQ((Identity(functions, x_) * x_).node->device(), "/task:1") << "device functions are asked";
}

TEST_F(OperatorsTest, ControlDependenciesAreNotRepeated) {
  const Output first = NoOp(s_);
  const Output after = Identity(s_.WithControlDependencies({first}), x_);
  EXPECT_TRUE((after + after).node->control_inputs().empty());
}

TEST_F(OperatorsTest, MissingOperands) {
  EXPECT_FALSE(Output() + Output());
  EXPECT_FALSE(-Output());
  EXPECT_FALSE(Output() + 1);
  ASSERT_OK(s_.status());
  EXPECT_FALSE(x_ + Output());
  EXPECT_THAT(s_.status(), Fails(absl::StatusCode::kInvalidArgument, "is missing"));
}

TEST_F(OperatorsTest, WorkAfterTheGraphHasMoved) {
  Graph from;
  const Output x = Placeholder(from.root(), kFloat, {2});
  Graph to = std::move(from);
  const Output y = x + 1;
  EXPECT_EQ(&y.node->graph(), &to);
  EXPECT_TRUE(to.Owns(*y.node));
  EXPECT_EQ(from.num_nodes(), 0);  // NOLINT: a moved-from graph is empty
}

TEST_F(OperatorsTest, GraphsDoNotMix) {
  Graph other;
  EXPECT_FALSE(x_ + Placeholder(other.root(), kFloat, {2}));
}

}  // namespace
}  // namespace thalweg
