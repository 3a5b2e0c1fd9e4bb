// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/shape_context.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"

namespace thalweg {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

class ShapeContextTest : public testing::Test {
 protected:
  ShapeContextTest() { RegisterTestOps(); }

  Output Value(const PartialShape& shape, DType dtype = kFloat) {
    return s_.Add("Placeholder", {}, {{"dtype", dtype}, {"shape", shape}});
  }
  Output Add(absl::string_view op, std::vector<OpInput> inputs) { return s_.Add(op, std::move(inputs)); }
  Output Ints(std::vector<int32_t> values) { return Constant(s_, Tensor::Vector<int32_t>(values)); }
  Output Int(int32_t value) { return Constant(s_, Tensor::Scalar(value)); }
  // The shape that a vector of sizes describes, as the graph knows it.
  std::string Described(const Output& sizes) {
    const Output output = s_.Add("OfShape", {sizes});
    return output.node == nullptr ? std::string(s_.status().message()) : output.shape().ToString();
  }

  Graph graph_;
  const Scope s_ = graph_.root();
};

TEST_F(ShapeContextTest, SizesThatAreConstant) {
  EXPECT_EQ(Described(Ints({2, 3})), "[2,3]");
  EXPECT_EQ(Described(Ints({2, -1})), "[2,?]");
  EXPECT_EQ(Described(Ints({})), "[]");
  EXPECT_EQ(Described(Constant(s_, Tensor::Vector<int64_t>({1, 5}))), "[1,5]");
  EXPECT_EQ(Described(Add("Identity", {Add("Identity", {Ints({4})})})), "[4]");
  EXPECT_EQ(Described(Int(-1)), "<unknown>") << "the unknown shape, as TensorFlow writes it";
}

TEST_F(ShapeContextTest, SizesThatAreComputed) {
  const Output x = Value({-1, 784});
  EXPECT_EQ(Described(Add("Shape", {x})), "[?,784]");
  EXPECT_EQ(Described(Add("Shape", {Value(Shape())})), "[]");
  EXPECT_EQ(Described(Add("Shape", {Value(PartialShape())})), "<unknown>");
  const Output unknown = Value(Shape(), kInt32);
  const Output packed = Add("Pack", {std::vector<Output>{unknown, Int(7), Int(-1)}});
  EXPECT_EQ(Described(packed), "[?,7,?]");
  EXPECT_EQ(Described(Add("ConcatV2", {std::vector<Output>{Add("Shape", {x}), Ints({3}), packed}, Int(0)})),
            "[?,784,3,?,7,?]");
  const Output shape_of_unknown = Add("Shape", {Value(PartialShape())});
  EXPECT_EQ(Described(Add("ConcatV2", {std::vector<Output>{Ints({3}), shape_of_unknown}, Int(0)})), "<unknown>");
}

TEST_F(ShapeContextTest, SizesOfWhichOnlyTheNumberIsKnown) {
  EXPECT_EQ(Described(Value({3}, kInt32)), "[?,?,?]");
  EXPECT_EQ(Described(Value({0}, kInt32)), "[]");
  EXPECT_EQ(Described(Value({-1}, kInt32)), "<unknown>");
  EXPECT_EQ(Described(Value(PartialShape(), kInt32)), "<unknown>");
}

TEST_F(ShapeContextTest, SizesThatAreNoShape) {
  EXPECT_THAT(Described(Ints({2, -2})), testing::HasSubstr("Dimension -2 must be >= -1"));
}

TEST_F(ShapeContextTest, AMatrixIsNoShape) {
  EXPECT_THAT(Described(Constant(s_, Tensor::Of<int32_t>({1, 1}, {3}))),
              testing::HasSubstr("must be a vector, got shape [1,1]"));
}

TEST_F(ShapeContextTest, AScalarIsNoShape) {
  EXPECT_THAT(Described(Int(3)), testing::HasSubstr("must be a vector, got a scalar"));
}

TEST_F(ShapeContextTest, TooManyDimensionsAreNoShape) {
  EXPECT_THAT(Described(Ints(std::vector<int32_t>(255, 1))), testing::HasSubstr("255 dimensions"));
}

TEST_F(ShapeContextTest, TooManyDimensionsInPiecesAreNoShape) {
  const Output half = Ints(std::vector<int32_t>(200, 1));
  EXPECT_THAT(Described(Add("ConcatV2", {std::vector<Output>{half, half}, Int(0)})),
              testing::HasSubstr("400 dimensions"));
}

// Pieces without dimensions may be as many as one likes.
TEST_F(ShapeContextTest, PiecesOfPiecesTakeNoTime) {
  const Output none = Ints({}), one = Ints({1}), axis = Int(0);
  const auto concat = [&](const Output& a, const Output& b) {
    return Add("ConcatV2", {std::vector<Output>{a, b}, axis});
  };
  Output twice = none, deep = one, all = one;
  for (int i = 0; i < 60; ++i) twice = concat(twice, twice);
  EXPECT_EQ(Described(twice), "<unknown>");
  for (int i = 0; i < 50'000; ++i) deep = concat(none, deep);
  EXPECT_EQ(Described(deep), "<unknown>");
  for (int i = 1; i < Shape::kMaxRank; ++i) all = concat(all, one);
  EXPECT_EQ(Described(all), PartialShape(Dims(Shape::kMaxRank, 1)).ToString());
}

TEST_F(ShapeContextTest, ConstantsAreSeenThroughIdentity) {
  const Output direct = Ints({5}), through = Add("Identity", {direct}), fed = Value({1}, kInt32);
  Node* join = s_.Add("Join", {through, fed});
  const ShapeContext c(*join);
  ASSERT_TRUE(c.Constant(0).has_value());
  EXPECT_THAT(c.Constant(0)->flat<int32_t>(), ElementsAre(5));
  EXPECT_FALSE(c.Constant(1).has_value());
  EXPECT_EQ(c.input(1), PartialShape({1}));
  EXPECT_EQ(c.num_inputs(), 2);
  EXPECT_EQ(*c.Attr<DType>("T"), kInt32);
}

TEST_F(ShapeContextTest, RanksAreRequired) {
  Node* join = s_.Add("Join", {Value({2, -1}), Value(PartialShape())});
  const ShapeContext c(*join);
  EXPECT_EQ(*c.WithRank(0, 2), PartialShape({2, -1}));
  EXPECT_EQ(*c.WithRank(1, 1), PartialShape({-1}));
  EXPECT_THAT(c.WithRank(0, 1),
              Fails(StatusCode::kInvalidArgument, "Shape must be rank 1 but is rank 2 for input 0 [2,?]"));
  EXPECT_THAT(c.RequireScalar(0), Fails(StatusCode::kInvalidArgument, "rank 0"));
  EXPECT_THAT(c.RequireScalar(1), IsOk());
}

TEST_F(ShapeContextTest, InputsMerge) {
  const auto sum = [&](const PartialShape& a, const PartialShape& b) {
    return s_.Add("AddN", {std::vector<Output>{Value(a), Value(b)}});
  };
  EXPECT_EQ(sum({-1, 3}, {2, -1})->output_shape(0), PartialShape({2, 3}));
  EXPECT_EQ(sum(PartialShape(), {2})->output_shape(0), PartialShape({2}));
  EXPECT_EQ(sum({2}, {3}), nullptr);
  EXPECT_THAT(s_.status(), Fails(StatusCode::kInvalidArgument, "(AddN)"));
}

TEST_F(ShapeContextTest, SharedFunctions) {
  Node* two = s_.Add("TwoOutputs", {Value({4, -1})});
  ShapeContext like(*two), scalar(*two), unknown(*two);
  ASSERT_THAT(shapes::LikeInput0(like), IsOk());
  EXPECT_EQ(like.TakeOutput(1), PartialShape({4, -1}));
  ASSERT_THAT(shapes::Scalar(scalar), IsOk());
  EXPECT_EQ(scalar.TakeOutput(0), PartialShape(Shape()));
  EXPECT_EQ(scalar.TakeOutput(1), PartialShape(Shape()));
  ASSERT_THAT(shapes::Unknown(unknown), IsOk());
  EXPECT_EQ(unknown.TakeOutput(0), PartialShape());
}

TEST(BroadcastShape, FollowsNumPy) {
  const auto broadcast = [](const PartialShape& a, const PartialShape& b) {
    const absl::StatusOr<PartialShape> ab = BroadcastShape(a, b), ba = BroadcastShape(b, a);
    EXPECT_EQ(ab.ok() && ba.ok() && *ab == *ba, ab.ok()) << "the order does not matter";
    return ab.ok() ? ab->ToString() : "none";
  };
  EXPECT_EQ(broadcast(Shape(), {2, 3}), "[2,3]");
  EXPECT_EQ(broadcast({3}, {2, 3}), "[2,3]");
  EXPECT_EQ(broadcast({2, 1}, {1, 3}), "[2,3]");
  EXPECT_EQ(broadcast({0}, {1}), "[0]");
  EXPECT_EQ(broadcast({-1}, {1}), "[?]");
  EXPECT_EQ(broadcast({-1}, {5}), "[5]");
  EXPECT_EQ(broadcast({-1}, {0}), "[0]");
  EXPECT_EQ(broadcast({-1}, {-1}), "[?]");
  EXPECT_EQ(broadcast(PartialShape(), {2}), "<unknown>");
  EXPECT_EQ(broadcast({2}, {3}), "none");
  EXPECT_EQ(broadcast({0}, {2}), "none");
  EXPECT_THAT(BroadcastShape({4, 2}, {3}), Fails(StatusCode::kInvalidArgument, "are 2 and 3 for shapes [4,2] and [3]"));
}

}  // namespace
}  // namespace thalweg
