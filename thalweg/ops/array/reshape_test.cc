// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(ReshapeTest, SharesMemory) {
  const Tensor x = Counting({2, 3});
  const Tensor y = Result("Reshape", {x, Ints({3, 2})});
  ExpectTensor(y, Counting({3, 2}));
  EXPECT_TRUE(y.SharesBufferWith(x));
  EXPECT_TRUE(Result("ExpandDims", {x, Int(0)}).SharesBufferWith(x));
  EXPECT_TRUE(Result("Squeeze", {Result("ExpandDims", {x, Int(0)})}).SharesBufferWith(x));
}

TEST(ReshapeTest, Infers) {
  const Tensor x = Counting({2, 3});
  ExpectTensor(Result("Reshape", {x, Ints({-1})}), Counting({6}));
  ExpectTensor(Result("Reshape", {x, Longs({2, -1, 1})}), Counting({2, 3, 1}));
  ExpectTensor(Result("Reshape", {Counting({1}), Ints({})}), Tensor::Scalar<float>(1));
  ExpectTensor(Result("Reshape", {Tensor(kFloat, {0, 3}), Ints({-1, 5})}), Tensor(kFloat, {0, 5}));
  ExpectTensor(Result("Reshape", {Tensor(kFloat, {0, 3}), Ints({0, -1})}), Tensor(kFloat, {0, 3}));
}

TEST(ReshapeTest, BadSizes) {
  const Tensor x = Counting({2, 3});
  ExpectInvalid(KernelError("Reshape", {FloatVector({1, 2}), Ints({3})}),
                "Input to reshape is a tensor with 2 values, but the requested shape has 3\n");
  ExpectInvalid(KernelError("Reshape", {x, Ints({-1, 4})}),
                "Input to reshape is a tensor with 6 values, but the requested shape requires a multiple of 4\n");
  ExpectInvalid(KernelError("Reshape", {x, Ints({-1, -1})}), "Only one input size may be -1, not both 0 and 1");
  ExpectInvalid(KernelError("Reshape", {x, Ints({-2, 3})}), "Size 0 must be non-negative, not -2");
  ExpectInvalid(KernelError("Reshape", {x, Int(6)}), "sizes input must be 1-D, not []");
  ExpectInvalid(KernelError("Reshape", {x, Longs({int64_t{1} << 40, int64_t{1} << 40})}), "Shape [");
}

TEST(ReshapeTest, InferredShapes) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {4, 3});
  EXPECT_EQ(Reshape(s, x, {-1, 6}).shape().ToString(), "[2,6]");
  EXPECT_EQ(Reshape(s, Placeholder(s, kFloat, {-1, 3}), {-1, 6}).shape().ToString(), "[?,6]");
  EXPECT_EQ(Reshape(s, x, Placeholder(s, kInt32, {2})).shape().ToString(), "[?,?]");
  Reshape(s, x, {5, 2});
  ExpectInvalid(s.status(), "Cannot reshape a tensor with 12 elements to shape [5,2] (10 elements)");
}

TEST(ExpandDimsTest, Axes) {
  const Tensor x = Counting({2, 3});
  EXPECT_EQ(Result("ExpandDims", {x, Int(0)}).shape().ToString(), "[1,2,3]");
  EXPECT_EQ(Result("ExpandDims", {x, Int(-1)}).shape().ToString(), "[2,3,1]");
  EXPECT_EQ(Result("ExpandDims", {x, Ints({1})}).shape().ToString(), "[2,1,3]");
  ExpectInvalid(KernelError("ExpandDims", {x, Int(3)}), "Tried to expand dim index 3 for tensor with 2 dimensions.");
  ExpectInvalid(KernelError("ExpandDims", {x, Ints({1, 2})}), "'dim' must be a tensor with a single value");
}

TEST(SqueezeTest, Axes) {
  const Tensor x = Counting({1, 3, 1});
  EXPECT_EQ(Result("Squeeze", {x}).shape().ToString(), "[3]");
  EXPECT_EQ(Result("Squeeze", {x}, {{"squeeze_dims", std::vector<int64_t>{-1}}}).shape().ToString(), "[1,3]");
  ExpectInvalid(KernelError("Squeeze", {x}, {{"squeeze_dims", std::vector<int64_t>{1}}}),
                "Can not squeeze dim[1], expected a dimension of 1, got 3");
  ExpectInvalid(KernelError("Squeeze", {x}, {{"squeeze_dims", std::vector<int64_t>{5}}}),
                "Tried to squeeze dim index 5 for tensor with 3 dimensions.");
  EXPECT_EQ(*InferShape("Squeeze", {{kFloat, {1, -1}}}, {{"squeeze_dims", std::vector<int64_t>{0}}}), "[?]");
  EXPECT_EQ(*InferShape("Squeeze", {{kFloat, {1, -1}}}), "<unknown>");
}

TEST(ReshapeTest, Gradients) {
  const Tensor x = TestValues(kDouble, {1, 3, 2});
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return Reshape(s, x[0], {2, -1}); }, {x});
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return ExpandDims(s, x[0], 1); }, {x});
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return Squeeze(s, x[0]); }, {x});
}

}  // namespace
}  // namespace thalweg
