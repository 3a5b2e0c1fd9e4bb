// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(UniqueTest, Values) {
  const auto y = RunOp("UniqueWithCounts", {Ints({3, 1, 3, 2, 1, 3})});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectTensor((*y)[0], Ints({3, 1, 2}));
  ExpectTensor((*y)[1], Ints({0, 1, 0, 2, 1, 0}));
  ExpectTensor((*y)[2], Ints({3, 2, 1}));
  ExpectTensor(Result("Unique", {Strings({"b", "a", "b"})}, {{"out_idx", kInt64}}, 1), Longs({0, 1, 0}));
  ExpectTensor(Result("Unique", {Ints({})}), Ints({}));
}

TEST(UniqueTest, FloatsAreComparedAsNumbers) {
  ExpectTensor(Result("Unique", {FloatVector({0.0f, -0.0f, NAN, NAN, 1})}, {}, 1), Ints({0, 0, 1, 2, 3}));
  ExpectTensor(Result("Unique", {Tensor::Vector<Half>({Half(1), Half(2), Half(1)})}, {}, 1), Ints({0, 1, 0}));
}

TEST(UniqueTest, AlongAxis) {
  const Tensor x = Tensor::Of<int32_t>({3, 2}, {1, 1, 2, 2, 1, 1});
  ExpectTensor(Result("UniqueV2", {x, Longs({0})}), Tensor::Of<int32_t>({2, 2}, {1, 1, 2, 2}));
  ExpectTensor(Result("UniqueV2", {x, Longs({-1})}), Tensor::Of<int32_t>({3, 1}, {1, 2, 1}));
  ExpectTensor(Result("UniqueWithCountsV2", {x, Longs({0})}, {}, 2), Ints({2, 1}));
  ExpectTensor(Result("UniqueV2", {Ints({4, 4}), Longs({})}), Ints({4}));
  // Strings that only differ in where one ends.
  ExpectTensor(Result("UniqueV2", {Tensor::Of<std::string>({2, 2}, {"ab", "c", "a", "bc"}), Longs({0})}, {}, 1),
               Ints({0, 1}));
}

TEST(UniqueTest, BadInput) {
  ExpectInvalid(KernelError("Unique", {Counting({2, 2})}), "unique expects a 1D vector.");
  ExpectInvalid(KernelError("UniqueV2", {Ints({1}), Longs({1})}), "axis has to be between [0, 1)");
  ExpectInvalid(KernelError("UniqueV2", {Ints({1}), Longs({0, 0})}),
                "axis does not support input tensors larger than 1");
  ExpectInvalid(KernelError("UniqueV2", {Ints({1}), Tensor::Scalar<int64_t>(0)}), "axis expects a 1D vector.");
}

TEST(UniqueTest, Functions) {
  Graph graph;
  const Scope s = graph.root();
  const UniqueResult y = Unique(s, Const(s, {5, 5}));
  EXPECT_EQ(y.y.shape().ToString(), "[?]");
  EXPECT_EQ(y.idx.shape().ToString(), "[2]");
  ExpectTensor(Values(s, {UniqueWithCounts(s, Const(s, {5, 5})).count})[0], Ints({2}));
}

}  // namespace
}  // namespace thalweg
