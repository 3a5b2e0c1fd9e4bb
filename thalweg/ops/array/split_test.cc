// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(SplitTest, Values) {
  const auto columns = RunOp("Split", {Int(1), Counting({2, 4})}, {{"num_split", 2}});
  ASSERT_TRUE(columns.ok()) << columns.status();
  ExpectTensor((*columns)[0], Tensor::Of<float>({2, 2}, {1, 2, 5, 6}));
  ExpectTensor((*columns)[1], Tensor::Of<float>({2, 2}, {3, 4, 7, 8}));
  const Tensor x = TestValues(kFloat, {4, 100});
  const auto rows = RunOp("Split", {Int(-2), x}, {{"num_split", 2}});
  ASSERT_TRUE(rows.ok()) << rows.status();
  ExpectTensor((*rows)[1], x.Rows(2, 4));
  EXPECT_TRUE((*rows)[1].SharesBufferWith(x));
}

TEST(SplitTest, BadInput) {
  const Tensor x = Counting({3, 4});
  ExpectInvalid(KernelError("Split", {Int(0), x}, {{"num_split", 2}}),
                "Number of ways to split should evenly divide the split dimension, but got split_dim 0 (size = 3) and "
                "num_split 2");
  ExpectInvalid(KernelError("Split", {Int(2), x}, {{"num_split", 2}}),
                "-input rank(-2) <= split_dim < input rank (2), but got 2");
  ExpectInvalid(KernelError("Split", {Ints({0}), x}, {{"num_split", 3}}), "split_dim must be a scalar but has rank 1");
}

TEST(SplitVTest, Values) {
  const auto parts = RunOp("SplitV", {Counting({6}), Longs({1, -1, 2}), Int(0)}, {{"num_split", 3}});
  ASSERT_TRUE(parts.ok()) << parts.status();
  ExpectTensor((*parts)[0], FloatVector({1}));
  ExpectTensor((*parts)[1], FloatVector({2, 3, 4}));
  ExpectTensor((*parts)[2], FloatVector({5, 6}));
}

TEST(SplitVTest, BadInput) {
  const auto error = [](std::initializer_list<int64_t> sizes) {
    return KernelError("SplitV", {Counting({6}), Longs(sizes), Int(0)}, {{"num_split", 2}});
  };
  ExpectInvalid(error({-1, -1}), "There can only be one -1 in the input.");
  ExpectInvalid(KernelError("SplitV", {Counting({6}), Longs({1, 5}), Ints({})}, {{"num_split", 2}}),
                "split_dim_tensor must have exactly one element.");
  ExpectInvalid(error({1, 2}), "Determined shape must either match input shape along split_dim exactly");
  ExpectInvalid(error({-2, 8}), "Split size at index 0 must be >= 0. Got: -2");
  ExpectInvalid(error({1, 2, 3}), "size of the split_tensor must be 1-D and have the same elements as outputs");
  ExpectInvalid(error({INT64_MAX, INT64_MAX}), "Split size at index 1");
}

TEST(SplitTest, InferredShapes) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {-1, 6});
  EXPECT_EQ(Split(s, x, 3, 1)[2].shape().ToString(), "[?,2]");
  EXPECT_EQ(Split(s, x, 3)[2].shape().ToString(), "[?,6]");
  EXPECT_EQ(Split(s, x, Const(s, {4, -1}), Const(s, 1), 2)[1].shape().ToString(), "[?,2]");
}

TEST(SplitTest, Gradients) {
  const Tensor x = TestValues(kDouble, {2, 6});
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return Split(s, x[0], 3, 1)[1]; }, {x});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return Split(s, x[0], Const(s, {4, -1}), Const(s, 1), 2)[1];
      },
      {x});
}

}  // namespace
}  // namespace thalweg
