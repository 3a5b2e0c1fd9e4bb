// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

using List = std::vector<Tensor>;

TEST(DynamicStitchTest, Values) {
  for (const char* op : {"DynamicStitch", "ParallelDynamicStitch"}) {
    ExpectTensor(Result(op, {List{Ints({0, 2}), Ints({1})},
                             List{Tensor::Of<float>({2, 1}, {1, 2}), Tensor::Of<float>({1, 1}, {3})}}),
                 Tensor::Of<float>({3, 1}, {1, 3, 2}));
    // Later rows win; rows without a number are zero.
    ExpectTensor(Result(op, {List{Ints({3, 0}), Int(0)}, List{FloatVector({1, 2}), Tensor::Scalar<float>(5)}}),
                 FloatVector({5, 0, 0, 1}));
    ExpectTensor(Result(op, {List{Ints({})}, List{Tensor(kFloat, {0, 3})}}), Tensor(kFloat, {0, 3}));
    ExpectTensor(Result(op, {List{Ints({1, 0})}, List{Strings({"a", "b"})}}), Strings({"b", "a"}));
  }
}

TEST(DynamicStitchTest, BadInput) {
  ExpectInvalid(KernelError("DynamicStitch", {List{Ints({0, -1})}, List{FloatVector({1, 2})}}),
                "indices[1] is out of range");
  ExpectInvalid(KernelError("DynamicStitch", {List{Ints({0, 1})}, List{FloatVector({1})}}),
                "data[0].shape = [1] does not start with indices[0].shape = [2]");
  ExpectInvalid(KernelError("DynamicStitch", {List{Ints({0}), Ints({1})}, List{Counting({1, 2}), Counting({1, 3})}}),
                "Need data[0].shape[1:] = data[1].shape[1:], got data[0].shape = [1,2], data[1].shape = [1,3]");
}

TEST(DynamicStitchTest, InferredShape) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {2, 3});
  EXPECT_EQ(DynamicStitch(s, {Const(s, {0, 4})}, {x}).shape().ToString(), "[5,3]");
  EXPECT_EQ(DynamicStitch(s, {Placeholder(s, kInt32, {2})}, {x}).shape().ToString(), "[?,3]");
}

TEST(DynamicPartitionTest, Values) {
  const auto parts = RunOp("DynamicPartition", {Counting({3, 2}), Ints({1, 0, 1})}, {{"num_partitions", 3}});
  ASSERT_TRUE(parts.ok()) << parts.status();
  ExpectTensor((*parts)[0], Tensor::Of<float>({1, 2}, {3, 4}));
  ExpectTensor((*parts)[1], Tensor::Of<float>({2, 2}, {1, 2, 5, 6}));
  ExpectTensor((*parts)[2], Tensor(kFloat, {0, 2}));
  ExpectTensor(Result("DynamicPartition", {Strings({"a", "b"}), Ints({1, 0})}, {{"num_partitions", 2}}, 1),
               Strings({"a"}));
}

TEST(DynamicPartitionTest, BadInput) {
  ExpectInvalid(KernelError("DynamicPartition", {FloatVector({1, 2}), Ints({0, 2})}, {{"num_partitions", 2}}),
                "partitions[1] = 2 is not in [0, 2)");
  ExpectInvalid(KernelError("DynamicPartition", {FloatVector({1, 2}), Ints({0, 1, 1})}, {{"num_partitions", 2}}),
                "data.shape must start with partitions.shape, got data.shape = [2], partitions.shape = [3]");
}

TEST(DynamicStitchTest, Gradients) {
  const Tensor x = TestValues(kDouble, {3, 2});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return DynamicStitch(s, {Const(s, {0, 4, 2}), Const(s, {1, 3, 5})}, {x[0], x[1]});
      },
      {x, x});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return DynamicPartition(s, x[0], Const(s, {1, 0, 1}), 2)[1];
      },
      {x});
}

}  // namespace
}  // namespace thalweg
