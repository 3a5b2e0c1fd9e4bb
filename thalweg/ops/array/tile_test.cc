// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(TileTest, Values) {
  ExpectTensor(Result("Tile", {Tensor::Of<float>({1, 2}, {1, 2}), Ints({2, 2})}),
               Tensor::Of<float>({2, 4}, {1, 2, 1, 2, 1, 2, 1, 2}));
  ExpectTensor(Result("Tile", {FloatVector({3}), Longs({4})}), FloatVector({3, 3, 3, 3}));
  ExpectTensor(Result("Tile", {Strings({"a", "b"}), Ints({2})}), Strings({"a", "b", "a", "b"}));
  ExpectTensor(Result("Tile", {Counting({2, 2}), Ints({0, 1})}), Tensor(kFloat, {0, 2}));
  ExpectTensor(Result("Tile", {Int(5), Ints({})}), Int(5));
  const Tensor x = Counting({2});
  EXPECT_TRUE(Result("Tile", {x, Ints({1})}).SharesBufferWith(x));
}

TEST(TileTest, BadInput) {
  ExpectInvalid(KernelError("Tile", {Counting({2, 2}), Ints({2})}),
                "Expected multiples argument to be a vector of length 2 but got length 1");
  ExpectInvalid(KernelError("Tile", {Counting({2}), Ints({-1})}), "Expected multiples[0] >= 0, but got -1");
  ExpectInvalid(KernelError("Tile", {Counting({2}), Longs({INT64_MAX})}),
                "Tile: 2 times 9223372036854775807 overflows");
}

TEST(TileTest, InferredShape) {
  Graph graph;
  const Scope s = graph.root();
  EXPECT_EQ(Tile(s, Placeholder(s, kFloat, {-1, 3}), Const(s, {2, 4})).shape().ToString(), "[?,12]");
  EXPECT_EQ(Tile(s, Placeholder(s, kFloat, {2, 3}), Placeholder(s, kInt32)).shape().ToString(), "[?,?]");
}

TEST(TileTest, Gradient) {
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return Tile(s, x[0], Const(s, {2, 3}));
      },
      {TestValues(kDouble, {2, 3})});
}

TEST(TileGradTest, SumsTheCopies) {
  const Tensor dy = Tensor::Of<float>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto dx = RunOp("TileGrad", {dy, Tensor::Vector<int32_t>({1, 2})});
  ASSERT_TRUE(dx.ok()) << dx.status();
  ExpectTensor((*dx)[0], Tensor::Of<float>({2, 2}, {4, 6, 12, 14}));
  EXPECT_FALSE(RunOp("TileGrad", {dy, Tensor::Vector<int32_t>({1, 3})}).ok());
  EXPECT_FALSE(RunOp("TileGrad", {dy, Tensor::Vector<int32_t>({1, 0})}).ok());
  EXPECT_FALSE(RunOp("TileGrad", {dy, Tensor::Vector<int32_t>({1})}).ok());
}

}  // namespace
}  // namespace thalweg
