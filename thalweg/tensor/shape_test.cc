// SPDX-License-Identifier: Apache-2.0
#include "thalweg/tensor/shape.h"

#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/proto/tensor.pb.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

tensorflow::TensorShapeProto Proto(const std::vector<int64_t>& dims) {
  tensorflow::TensorShapeProto proto;
  for (const int64_t dim : dims) proto.add_dim()->set_size(dim);
  return proto;
}

TEST(Shape, KnowsItsElements) {
  EXPECT_EQ(Shape().num_elements(), 1);
  EXPECT_TRUE(Shape().is_scalar());
  EXPECT_EQ(Shape({7}).num_elements(), 7);
  EXPECT_TRUE(Shape({7}).is_vector());
  EXPECT_EQ(Shape({2, 3}).num_elements(), 6);
  EXPECT_TRUE(Shape({2, 3}).is_matrix());
  EXPECT_EQ(Shape({2, 0, 3}).num_elements(), 0);
  EXPECT_EQ(Shape({kMax}).num_elements(), kMax);
  EXPECT_EQ(Shape({2, 3, 4}).Product(1, 3), 12);
  EXPECT_EQ(Shape({2, 3, 4}).Product(1, 1), 1);
  EXPECT_EQ(Shape({2, 0, 4}).Product(1, 3), 0);
  EXPECT_EQ(Shape({2, 0, 4}).Product(2, 3), 4);
}

TEST(Shape, TextAndEquality) {
  EXPECT_EQ(Shape().ToString(), "[]");
  EXPECT_EQ(Shape({2, 3}).ToString(), "[2,3]");
  EXPECT_EQ(Shape({2, 3}), Shape({2, 3}));
  EXPECT_FALSE(Shape({2, 3}) == Shape({3, 2}));
  EXPECT_FALSE(Shape({1}) == Shape());
}

TEST(Shape, BadDimensionsAreRefused) {
  const auto error = [](const std::vector<int64_t>& dims) {
    const auto shape = Shape::Make(dims);
    EXPECT_EQ(shape.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(shape.status().message());
  };
  EXPECT_EQ(error({2, -3}), "shape [2,-3]: dimension 1 is -3, expected at least 0");
  EXPECT_EQ(error({-1}), "shape [-1]: dimension 0 is -1, expected at least 0");
  EXPECT_EQ(error({int64_t{1} << 32, int64_t{1} << 31}),
            "shape [4294967296,2147483648] has more than 2^63-1 elements. "
            "Encountered overflow when multiplying its dimensions.");
  // A zero does not excuse the others: some code multiplies only those.
  EXPECT_THAT(error({0, kMax, 2}), HasSubstr("2^63-1"));
  EXPECT_THAT(error({kMax, 2, 0}), HasSubstr("2^63-1"));
  EXPECT_EQ(error(std::vector<int64_t>(255, 1)), "shape has 255 dimensions, at most 254 are allowed");
  EXPECT_TRUE(Shape::Make(std::vector<int64_t>(254, 1)).ok());
  EXPECT_EQ(Shape::Make({3, 4}).value(), Shape({3, 4}));
}

TEST(ShapeDeathTest, OurOwnBadDimensionsAreBugs) {
  EXPECT_DEATH(Shape({-1}), "dimension 0 is -1");
  EXPECT_DEATH(Shape({2}).AddDim(-2), "dimension 1 is -2");
  EXPECT_DEATH(Shape({2}).set_dim(0, -2), "dimension 0 is -2");
  EXPECT_DEATH(Shape({2}).RemoveDim(1), "dimension 1 of");
}

TEST(Shape, CanBeEdited) {
  Shape shape({2, 3});
  shape.AddDim(4);
  EXPECT_EQ(shape, Shape({2, 3, 4}));
  EXPECT_EQ(shape.num_elements(), 24);
  shape.InsertDim(0, 5);
  EXPECT_EQ(shape, Shape({5, 2, 3, 4}));
  EXPECT_EQ(shape.num_elements(), 120);
  shape.InsertDim(2, 0);
  EXPECT_EQ(shape, Shape({5, 2, 0, 3, 4}));
  EXPECT_EQ(shape.num_elements(), 0);
  shape.RemoveDim(2);
  shape.RemoveDim(0);
  EXPECT_EQ(shape, Shape({2, 3, 4}));
  EXPECT_EQ(shape.num_elements(), 24);
  shape.set_dim(1, 10);
  EXPECT_EQ(shape, Shape({2, 10, 4}));
  EXPECT_EQ(shape.num_elements(), 80);
}

TEST(Shape, ToAndFromProto) {
  tensorflow::TensorShapeProto proto = Proto({9});
  Shape({2, 0, 3}).ToProto(&proto);
  EXPECT_EQ(proto.ShortDebugString(), "dim { size: 2 } dim { } dim { size: 3 }");
  EXPECT_EQ(Shape::FromProto(proto).value(), Shape({2, 0, 3}));
  EXPECT_EQ(Shape::FromProto(Proto({})).value(), Shape());

  EXPECT_THAT(Shape::FromProto(Proto({2, -1})).status().message(), HasSubstr("dimension 1 is -1"));
  EXPECT_THAT(Shape::FromProto(Proto({kMax, kMax})).status().message(), HasSubstr("2^63-1"));
  EXPECT_THAT(Shape::FromProto(Proto(std::vector<int64_t>(1000, 1))).status().message(), HasSubstr("1000 dimensions"));
  proto.Clear();
  proto.set_unknown_rank(true);
  EXPECT_THAT(Shape::FromProto(proto).status().message(), HasSubstr("unknown rank"));
}

TEST(PartialShape, KnowsWhatIsKnown) {
  EXPECT_FALSE(PartialShape().has_rank());
  EXPECT_EQ(PartialShape().rank(), -1);
  EXPECT_FALSE(PartialShape().fully_known());
  EXPECT_EQ(PartialShape({-1, 784}).rank(), 2);
  EXPECT_FALSE(PartialShape({-1, 784}).fully_known());
  EXPECT_EQ(PartialShape({-1, 784}).num_elements(), -1);
  EXPECT_FALSE(PartialShape({-1, 784}).AsShape().has_value());
  EXPECT_TRUE(PartialShape({2, 3}).fully_known());
  EXPECT_EQ(PartialShape({2, 3}).num_elements(), 6);
  EXPECT_EQ(PartialShape({2, 3}).AsShape(), Shape({2, 3}));
  EXPECT_EQ(PartialShape(Shape({2, 3})), PartialShape({2, 3}));
  EXPECT_EQ(PartialShape::OfRank(2), PartialShape({-1, -1}));
  // Known, but no shape.
  EXPECT_FALSE(PartialShape({kMax, kMax}).AsShape().has_value());
  EXPECT_EQ(PartialShape({kMax, kMax}).num_elements(), -1);
}

TEST(PartialShape, Text) {
  EXPECT_EQ(PartialShape().ToString(), "<unknown>");
  EXPECT_EQ(PartialShape({-1, 784}).ToString(), "[?,784]");
  EXPECT_EQ(PartialShape(Shape()).ToString(), "[]");
}

TEST(PartialShape, Accepts) {
  EXPECT_TRUE(PartialShape().Accepts(Shape({1, 2})));
  EXPECT_TRUE(PartialShape({-1, 784}).Accepts(Shape({32, 784})));
  EXPECT_FALSE(PartialShape({-1, 784}).Accepts(Shape({32, 783})));
  EXPECT_FALSE(PartialShape({-1, 784}).Accepts(Shape({32})));
  EXPECT_FALSE(PartialShape({-1}).Accepts(Shape({32, 784})));
  EXPECT_FALSE(PartialShape({-1}).Accepts(Shape()));
}

TEST(PartialShape, Merges) {
  const auto merge = [](const PartialShape& a, const PartialShape& b) { return PartialShape::Merge(a, b); };
  EXPECT_EQ(merge({-1, 3}, {2, -1}).value(), PartialShape({2, 3}));
  EXPECT_EQ(merge(PartialShape(), {2, -1}).value(), PartialShape({2, -1}));
  EXPECT_EQ(merge({2, -1}, PartialShape()).value(), PartialShape({2, -1}));
  EXPECT_EQ(merge({2, 3}, {2, 3}).value(), PartialShape({2, 3}));
  EXPECT_EQ(merge({2, 3}, {2, 4}).status(),
            absl::InvalidArgumentError("shapes differ in dimension 1: [2,3] and [2,4]"));
  EXPECT_EQ(merge({2}, {-1, 4}).status(), absl::InvalidArgumentError("shapes differ in rank: [2] and [?,4]"));
}

TEST(PartialShape, ToAndFromProto) {
  tensorflow::TensorShapeProto proto = Proto({9});
  PartialShape().ToProto(&proto);
  EXPECT_EQ(proto.ShortDebugString(), "unknown_rank: true");
  EXPECT_EQ(PartialShape::FromProto(proto).value(), PartialShape());
  PartialShape({-1, 3}).ToProto(&proto);
  EXPECT_EQ(proto.ShortDebugString(), "dim { size: -1 } dim { size: 3 }");
  EXPECT_EQ(PartialShape::FromProto(proto).value(), PartialShape({-1, 3}));

  EXPECT_THAT(PartialShape::FromProto(Proto({2, -2})).status().message(), HasSubstr("dimension 1 is -2"));
  EXPECT_THAT(PartialShape::FromProto(Proto({-1, kMax, 2})).status().message(), HasSubstr("2^63-1"));
  EXPECT_THAT(PartialShape::FromProto(Proto(std::vector<int64_t>(300, -1))).status().message(),
              HasSubstr("300 dimensions"));
  proto.set_unknown_rank(true);
  EXPECT_THAT(PartialShape::FromProto(proto).status().message(), HasSubstr("unknown rank and 2 dimensions"));
}

}  // namespace
}  // namespace thalweg
