// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

Tensor Margins(std::initializer_list<int32_t> v) {
  return Tensor::Of<int32_t>(Shape({static_cast<int64_t>(v.size()) / 2, 2}), v);
}

TEST(SpaceToBatchTest, Values) {
  const Tensor image = Counting({1, 2, 2, 1});
  ExpectTensor(Result("SpaceToBatchND", {image, Ints({2, 2}), Margins({0, 0, 0, 0})}), Counting({4, 1, 1, 1}));
  ExpectTensor(Result("SpaceToBatch", {image, Margins({0, 0, 0, 0})}, {{"block_size", 2}}), Counting({4, 1, 1, 1}));
  ExpectTensor(Result("BatchToSpaceND", {Counting({4, 1, 1, 1}), Ints({2, 2}), Margins({0, 0, 0, 0})}), image);
  ExpectTensor(Result("BatchToSpace", {Counting({4, 1, 1, 1}), Margins({1, 0, 0, 0})}, {{"block_size", 2}}),
               Tensor::Of<float>({1, 1, 2, 1}, {3, 4}));
  ExpectTensor(Result("SpaceToBatchND", {Counting({1, 3}), Ints({2}), Margins({1, 0})}),
               Tensor::Of<float>({2, 2}, {0, 2, 1, 3}));
}

TEST(SpaceToBatchTest, BadInput) {
  const Tensor image = Counting({1, 3, 2, 1});
  ExpectInvalid(KernelError("SpaceToBatchND", {image, Ints({2, 2}), Margins({0, 0, 0, 0})}),
                "padded_shape[0]=3 is not divisible by block_shape[0]=2");
  ExpectInvalid(KernelError("SpaceToBatchND", {image, Ints({0, 2}), Margins({0, 0, 0, 0})}),
                "block_shape must be positive");
  ExpectInvalid(KernelError("SpaceToBatchND", {image, Ints({2, 2}), Margins({-1, 0, 0, 0})}),
                "Paddings must be non-negative");
  ExpectInvalid(KernelError("SpaceToBatchND", {image, Ints({2, 2}), Margins({0, 0})}),
                "paddings should have shape [2, 2]");
  ExpectInvalid(KernelError("SpaceToBatchND", {Counting({4}), Ints({2}), Margins({0, 0})}),
                "input rank should be >= 2");
  ExpectInvalid(KernelError("BatchToSpaceND", {Counting({3, 1}), Ints({2}), Margins({0, 0})}),
                "Input batch dimension (3) is not divisible by product of block sizes (2)");
  ExpectInvalid(KernelError("BatchToSpaceND", {Counting({2, 1}), Ints({2}), Margins({2, 1})}),
                "cropped_shape[0]=-1 must be non-negative");
}

TEST(SpaceToBatchTest, InferredShapes) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {-1, 4, 5, 3});
  EXPECT_EQ(SpaceToBatchND(s, x, Const(s, {2, 3}), Const(s, {{0, 0}, {1, 0}})).shape().ToString(), "[?,2,2,3]");
  EXPECT_EQ(BatchToSpaceND(s, x, Const(s, {2, 3}), Const(s, {{0, 1}, {1, 0}})).shape().ToString(), "[?,7,14,3]");
}

TEST(SpaceToBatchTest, Gradients) {
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return SpaceToBatchND(s, x[0], Const(s, {2, 2}), Const(s, {{1, 0}, {0, 1}}));
      },
      {TestValues(kDouble, {1, 3, 3, 2})});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return BatchToSpaceND(s, x[0], Const(s, {2, 2}), Const(s, {{1, 0}, {0, 1}}));
      },
      {TestValues(kDouble, {4, 2, 2, 1})});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return Output(s.Add("SpaceToBatch", {x[0], Const(s, {{1, 0}, {0, 1}})}, {{"block_size", 2}}));
      },
      {TestValues(kDouble, {1, 3, 3, 2})});
}

TEST(SpaceToDepthTest, Values) {
  const Tensor image = Tensor::Of<float>({1, 2, 4, 1}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor deep = Tensor::Of<float>({1, 1, 2, 4}, {1, 2, 5, 6, 3, 4, 7, 8});
  ExpectTensor(Result("SpaceToDepth", {image}, {{"block_size", 2}}), deep);
  ExpectTensor(Result("DepthToSpace", {deep}, {{"block_size", 2}}), image);
  const Tensor planar =
      Result("SpaceToDepth", {image.WithShape({1, 1, 2, 4})}, {{"block_size", 2}, {"data_format", "NCHW"}});
  ExpectTensor(planar, Tensor::Of<float>({1, 4, 1, 2}, {1, 3, 2, 4, 5, 7, 6, 8}));
}

TEST(SpaceToDepthTest, BadInput) {
  ExpectInvalid(KernelError("SpaceToDepth", {Counting({1, 3, 4, 1})}, {{"block_size", 2}}),
                "Image width 4 and height 3 should be divisible by block_size: 2");
  ExpectInvalid(KernelError("DepthToSpace", {Counting({1, 1, 1, 3})}, {{"block_size", 2}}),
                "Input depth dimension 3 should be divisible by: 4");
  ExpectInvalid(KernelError("SpaceToDepth", {Counting({2, 2})}, {{"block_size", 2}}),
                "Input rank should be 4 instead of 2");
}

TEST(SpaceToDepthTest, Gradients) {
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return SpaceToDepth(s, x[0], 2); },
                 {TestValues(kDouble, {1, 2, 4, 2})});
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return DepthToSpace(s, x[0], 2); },
                 {TestValues(kDouble, {1, 2, 1, 4})});
}

}  // namespace
}  // namespace thalweg
