// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(SliceTest, Values) {
  const Tensor x = Counting({2, 3});
  ExpectTensor(Result("Slice", {x, Ints({0, 1}), Ints({2, 1})}), Tensor::Of<float>({2, 1}, {2, 5}));
  ExpectTensor(Result("Slice", {x, Ints({1, 0}), Ints({-1, -1})}), Tensor::Of<float>({1, 3}, {4, 5, 6}));
  ExpectTensor(Result("Slice", {x, Longs({2, 3}), Longs({0, 0})}), Tensor(kFloat, {0, 0}));
  ExpectTensor(Result("Slice", {Strings({"a", "b", "c"}), Ints({1}), Ints({2})}), Strings({"b", "c"}));
}

TEST(SliceTest, RowsShareMemory) {
  const Tensor x = TestValues(kFloat, {100, 3});
  const Tensor y = Result("Slice", {x, Ints({10, 0}), Ints({80, 3})});
  ExpectTensor(y, x.Rows(10, 90));
  EXPECT_TRUE(y.SharesBufferWith(x));
}

TEST(SliceTest, BadInput) {
  const Tensor x = Counting({2, 3});
  ExpectInvalid(KernelError("Slice", {x, Ints({0}), Ints({1})}),
                "Expected begin and size arguments to be 1-D tensors of size 2, but got shapes [1] and [1] instead.");
  ExpectInvalid(KernelError("Slice", {x, Ints({3, 0}), Ints({0, 0})}), "Expected begin[0] in [0, 2], but got 3");
  ExpectInvalid(KernelError("Slice", {x, Ints({-1, 0}), Ints({1, 1})}), "Expected begin[0] in [0, 2], but got -1");
  ExpectInvalid(KernelError("Slice", {x, Ints({1, 0}), Ints({2, 1})}), "Expected size[0] in [0, 1], but got 2");
  ExpectInvalid(KernelError("Slice", {x, Longs({1, 0}), Longs({INT64_MAX, 1})}), "Expected size[0] in [0, 1]");
  ExpectInvalid(KernelError("Slice", {Tensor(kFloat, {0}), Ints({0}), Ints({1})}), "Expected begin[0] == 0 (got 0)");
}

TEST(SliceTest, InferredShape) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {-1, 5});
  EXPECT_EQ(Slice(s, x, Const(s, {0, 1}), Const(s, {2, -1})).shape().ToString(), "[2,4]");
  EXPECT_EQ(Slice(s, x, Placeholder(s, kInt32, {2}), Const(s, {2, -1})).shape().ToString(), "[2,?]");
  EXPECT_EQ(Slice(s, x, Placeholder(s, kInt32, {2}), Placeholder(s, kInt32)).shape().ToString(), "[?,?]");
}

TEST(SliceTest, Gradient) {
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return Slice(s, x[0], Const(s, {1, 0}), Const(s, {2, 2}));
      },
      {TestValues(kDouble, {3, 4})});
}

}  // namespace
}  // namespace thalweg
