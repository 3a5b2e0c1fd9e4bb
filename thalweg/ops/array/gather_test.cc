// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(GatherTest, Values) {
  const Tensor x = Counting({3, 2});
  ExpectTensor(Result("GatherV2", {x, Ints({2, 0, 2}), Int(0)}), Tensor::Of<float>({3, 2}, {5, 6, 1, 2, 5, 6}));
  ExpectTensor(Result("GatherV2", {x, Ints({1}), Int(-1)}), Tensor::Of<float>({3, 1}, {2, 4, 6}));
  ExpectTensor(Result("GatherV2", {x, Int(1), Int(0)}), FloatVector({3, 4}));
  ExpectTensor(Result("Gather", {x, Tensor::Of<int64_t>({1, 2}, {0, 1})}), Tensor::Of<float>({1, 2, 2}, {1, 2, 3, 4}));
  ExpectTensor(Result("GatherV2", {Strings({"a", "b"}), Ints({1, 0}), Int(0)}), Strings({"b", "a"}));
  ExpectTensor(Result("GatherV2", {x, Ints({}), Int(0)}), Tensor(kFloat, {0, 2}));
}

TEST(GatherTest, BatchDims) {
  const Tensor x = Counting({2, 3});
  const Tensor indices = Tensor::Of<int32_t>({2, 2}, {2, 0, 1, 1});
  ExpectTensor(Result("GatherV2", {x, indices, Int(1)}, {{"batch_dims", 1}}), Tensor::Of<float>({2, 2}, {3, 1, 5, 5}));
  ExpectInvalid(KernelError("GatherV2", {x, indices, Int(0)}, {{"batch_dims", 1}}),
                "batch_dims (1) must be less than or equal to axis (0).");
  ExpectInvalid(KernelError("GatherV2", {Counting({3, 3}), indices, Int(1)}, {{"batch_dims", 1}}),
                "params.shape[0]: 3 should be equal to indices.shape[0]: 2");
  ExpectInvalid(KernelError("GatherV2", {x, indices, Int(1)}, {{"batch_dims", 3}}),
                "Expected batch_dims in the range [-2, 2], but got 3");
}

TEST(GatherTest, Large) {
  const Tensor x = TestValues(kFloat, {1000, 64});
  Tensor indices(kInt32, {5000});
  for (int i = 0; i < 5000; ++i) indices.mutable_data<int32_t>()[i] = i * 37 % 1000;
  const Tensor y = Result("GatherV2", {x, indices, Int(0)});
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(y.data<float>()[i * 64 + 63], x.data<float>()[indices.data<int32_t>()[i] * 64 + 63]);
  }
}

TEST(GatherTest, BadIndices) {
  const Tensor x = Counting({3, 2});
  ExpectInvalid(KernelError("GatherV2", {x, Ints({0, 3}), Int(0)}), "indices[1] = 3 is not in [0, 3)");
  ExpectInvalid(KernelError("GatherV2", {x, Tensor::Of<int64_t>({1, 2}, {0, -1}), Int(0)}),
                "indices[0,1] = -1 is not in [0, 3)");
  ExpectInvalid(KernelError("GatherV2", {x, Int(7), Int(0)}), "indices = 7 is not in [0, 3)");
  ExpectInvalid(KernelError("GatherV2", {x, Int(0), Int(2)}), "Expected axis in the range [-2, 2), but got 2");
  ExpectInvalid(KernelError("GatherV2", {x, Int(0), Ints({0})}), "axis must be scalar");
  ExpectInvalid(KernelError("GatherV2", {Int(1), Int(0), Int(0)}), "params must be at least 1 dimensional");
  ExpectInvalid(KernelError("GatherV2", {Tensor(kFloat, {0, 2}), Ints({0}), Int(0)}),
                "indices[0] = 0 is not in [0, 0)");
}

TEST(GatherTest, InferredShape) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {-1, 3, 4}), i = Placeholder(s, kInt32, {5, -1});
  EXPECT_EQ(Gather(s, x, i).shape().ToString(), "[5,?,3,4]");
  EXPECT_EQ(Gather(s, x, i, {.axis = -1}).shape().ToString(), "[?,3,5,?]");
  EXPECT_EQ(Gather(s, x, i, {.axis = 1, .batch_dims = 1}).shape().ToString(), "[?,?,4]");
}

TEST(GatherTest, SparseGradient) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Const(s, {{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}});
  const Gradient dx = Gradients(s, {Gather(s, x, Const(s, {2, 0, 2}))}, {x})[0];
  ASSERT_TRUE(s.ok()) << s.status();
  ASSERT_TRUE(dx.sparse());
  const std::vector<Tensor> v = Values(s, {dx.values, dx.indices, dx.dense_shape, ToDense(s, dx)});
  ExpectTensor(v[0], Tensor::Of<float>({3, 2}, {1, 1, 1, 1, 1, 1}));
  ExpectTensor(v[1], Ints({2, 0, 2}));
  ExpectTensor(v[2], Ints({3, 2}));
  ExpectTensor(v[3], Tensor::Of<float>({3, 2}, {1, 1, 0, 0, 2, 2}));
}

TEST(GatherTest, Gradients) {
  const Tensor x = TestValues(kDouble, {3, 4, 2});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return Gather(s, x[0], Const(s, {{2, 0}, {2, 1}}));
      },
      {x});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return Gather(s, x[0], Const(s, {3, 0, 3}), {.axis = 1});
      },
      {x});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) { return Gather(s, x[0], Const(s, int64_t{1}), {.axis = -1}); },
      {x});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return Gather(s, x[0], Const(s, {{3, 0}, {1, 1}, {2, 3}}), {.axis = 1, .batch_dims = 1});
      },
      {x});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return Gather(s, x[0], Const(s, {{1, 0}, {1, 1}, {0, 1}}), {.axis = 2, .batch_dims = 1});
      },
      {x});
}

}  // namespace
}  // namespace thalweg
