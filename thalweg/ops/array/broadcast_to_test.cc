// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(BroadcastToTest, Values) {
  ExpectTensor(Result("BroadcastTo", {Tensor::Of<float>({2, 1}, {1, 2}), Ints({2, 2, 3})}),
               Tensor::Of<float>({2, 2, 3}, {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2}));
  ExpectTensor(Result("BroadcastTo", {Tensor::Scalar<std::string>("a"), Longs({2})}), Strings({"a", "a"}));
  ExpectTensor(Result("BroadcastTo", {FloatVector({1}), Ints({0})}), FloatVector({}));
  const Tensor x = Counting({2});
  EXPECT_TRUE(Result("BroadcastTo", {x, Ints({2})}).SharesBufferWith(x));
}

TEST(BroadcastToTest, BadInput) {
  const Tensor x = Counting({2, 3});
  ExpectInvalid(KernelError("BroadcastTo", {x, Ints({5, 3})}), "Incompatible shapes: [2,3] vs. [5,3]");
  ExpectInvalid(KernelError("BroadcastTo", {x, Ints({2, 1})}), "Unable to broadcast tensor of shape [2,3]");
  ExpectInvalid(KernelError("BroadcastTo", {x, Ints({3})}), "Rank of input (2) must be no greater than rank of output");
  ExpectInvalid(KernelError("BroadcastTo", {x, Ints({2, -1})}), "");
  ExpectInvalid(KernelError("BroadcastTo", {x, Int(2)}), "shape must be a vector");
}

TEST(BroadcastToTest, InferredShape) {
  Graph graph;
  const Scope s = graph.root();
  EXPECT_EQ(BroadcastTo(s, Placeholder(s, kFloat, {-1, 1}), Const(s, {4, 2, 3})).shape().ToString(), "[4,2,3]");
}

TEST(BroadcastToTest, Gradient) {
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return BroadcastTo(s, x[0], Const(s, {4, 2, 3}));
      },
      {TestValues(kDouble, {2, 1})});
}

}  // namespace
}  // namespace thalweg
