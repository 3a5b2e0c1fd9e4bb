// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(ShapeTest, Values) {
  const Tensor x = Counting({2, 3});
  ExpectTensor(Result("Shape", {x}), Ints({2, 3}));
  ExpectTensor(Result("Shape", {x}, {{"out_type", kInt64}}), Longs({2, 3}));
  ExpectTensor(Result("Shape", {Int(1)}), Ints({}));
  ExpectTensor(Result("Size", {x}), Int(6));
  ExpectTensor(Result("Size", {Strings({})}, {{"out_type", kInt64}}), Tensor::Scalar<int64_t>(0));
  ExpectTensor(Result("Rank", {x}), Int(2));
  const auto shapes = RunOp("ShapeN", {std::vector<Tensor>{x, FloatVector({1})}});
  ASSERT_TRUE(shapes.ok()) << shapes.status();
  ExpectTensor((*shapes)[0], Ints({2, 3}));
  ExpectTensor((*shapes)[1], Ints({1}));
}

TEST(ShapeTest, InferredShapes) {
  EXPECT_EQ(*InferShape("Shape", {{kFloat, {2, -1}}}), "[2]");
  EXPECT_EQ(*InferShape("Shape", {{kFloat, PartialShape()}}), "[?]");
  EXPECT_EQ(*InferShape("Size", {{kFloat, PartialShape()}}), "[]");
  EXPECT_EQ(*InferShape("Rank", {{kFloat, PartialShape()}}), "[]");
}

TEST(ShapeTest, TooLargeForInt32) {
  // A tensor without elements takes no memory.
  const Tensor x(kFloat, Shape({int64_t{1} << 32, 0}));
  ExpectInvalid(KernelError("Shape", {x}), "Shape output type is 32-bit, but dim or size is 4294967296");
  ExpectTensor(Result("Shape", {x}, {{"out_type", kInt64}}), Longs({int64_t{1} << 32, 0}));
}

}  // namespace
}  // namespace thalweg
