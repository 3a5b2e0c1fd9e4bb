// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

Tensor Rows(std::initializer_list<int32_t> v, int64_t depth) {
  return Tensor::Of<int32_t>(Shape({static_cast<int64_t>(v.size()) / depth, depth}), v);
}

TEST(GatherNdTest, Values) {
  const Tensor x = Counting({2, 3});
  ExpectTensor(Result("GatherNd", {x, Rows({0, 1, 1, 2}, 2)}), FloatVector({2, 6}));
  ExpectTensor(Result("GatherNd", {x, Rows({1, 0}, 1)}), Tensor::Of<float>({2, 3}, {4, 5, 6, 1, 2, 3}));
  ExpectTensor(Result("GatherNd", {x, Tensor(kInt32, {2, 0})}),
               Tensor::Of<float>({2, 2, 3}, {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}));
  ExpectTensor(Result("GatherNd", {Strings({"a", "b"}), Longs({1})}), Tensor::Scalar<std::string>("b"));
}

TEST(GatherNdTest, BadInput) {
  const Tensor x = Counting({2, 3});
  ExpectInvalid(KernelError("GatherNd", {x, Rows({0, 0, 1, 3}, 2)}),
                "indices[1] = [1, 3] does not index into param shape [2,3]");
  ExpectInvalid(KernelError("GatherNd", {x, Rows({0, 0, 0}, 3)}),
                "index innermost dimension length must be <= params rank; saw: 3 vs. 2");
  ExpectInvalid(KernelError("GatherNd", {x, Int(0)}), "indices must be at least a vector");
  ExpectInvalid(KernelError("GatherNd", {Tensor(kFloat, {0, 3}), Rows({0}, 1)}), "Requested more than 0 entries");
}

TEST(ScatterNdTest, Values) {
  ExpectTensor(Result("ScatterNd", {Rows({2, 0, 2}, 1), FloatVector({1, 2, 3}), Ints({4})}), FloatVector({2, 0, 4, 0}));
  ExpectTensor(Result("ScatterNd", {Rows({1, 0}, 2), Ints({7}), Ints({2, 2})}),
               Tensor::Of<int32_t>({2, 2}, {0, 0, 7, 0}));
  ExpectTensor(Result("ScatterNd", {Rows({0, 0}, 1), Tensor::Vector<bool>({true, false}), Ints({2})}),
               Tensor::Vector<bool>({true, false}));
  ExpectTensor(Result("ScatterNd", {Rows({0, 0}, 1), Strings({"a", "b"}), Ints({2})}), Strings({"ab", ""}));
}

TEST(ScatterNdTest, BadInput) {
  ExpectInvalid(KernelError("ScatterNd", {Rows({4}, 1), FloatVector({1}), Ints({4})}),
                "indices[0] = [4] does not index into shape [4]");
  ExpectInvalid(KernelError("ScatterNd", {Rows({0}, 1), FloatVector({1, 2}), Ints({4})}),
                "Dimensions [0,1) of indices[shape=[1,1]]");
  ExpectInvalid(KernelError("ScatterNd", {Rows({0}, 1), Counting({1, 2}), Ints({4, 3})}),
                "Dimensions [1,2) of input[shape=[4,3]]");
  ExpectInvalid(KernelError("ScatterNd", {Rows({0}, 1), FloatVector({1}), Ints({0})}),
                "Indices and updates specified for empty output");
  ExpectInvalid(KernelError("ScatterNd", {Rows({0}, 1), FloatVector({1}), Ints({-2})}), "");
  ExpectInvalid(KernelError("ScatterNd", {Rows({0}, 1), FloatVector({1}), Int(2)}), "Shape must be a vector");
}

TEST(TensorScatterTest, Values) {
  const Tensor x = FloatVector({1, 2, 3}), indices = Rows({2, 0, 2}, 1), updates = FloatVector({5, -1, 4});
  ExpectTensor(Result("TensorScatterUpdate", {x, indices, updates}), FloatVector({-1, 2, 4}));
  ExpectTensor(Result("TensorScatterAdd", {x, indices, updates}), FloatVector({0, 2, 12}));
  ExpectTensor(Result("ScatterNdNonAliasingAdd", {x, indices, updates}), FloatVector({0, 2, 12}));
  ExpectTensor(Result("TensorScatterSub", {x, indices, updates}), FloatVector({2, 2, -6}));
  ExpectTensor(Result("TensorScatterMax", {x, indices, updates}), FloatVector({1, 2, 5}));
  ExpectTensor(Result("TensorScatterMin", {x, indices, updates}), FloatVector({-1, 2, 3}));
  ExpectTensor(x, FloatVector({1, 2, 3}));
  ExpectInvalid(KernelError("TensorScatterAdd", {x, Rows({3}, 1), FloatVector({1})}),
                "indices[0] = [3] does not index into shape [3]");
}

TEST(GatherNdTest, Gradients) {
  const Tensor x = TestValues(kDouble, {3, 4}), updates = TestValues(kDouble, {2}, 1, 2, 3);
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return GatherNd(s, x[0], Const(s, {{2, 1}, {0, 3}}));
      },
      {x});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return GatherNd(s, x[0], Const(s, {{2}, {2}}));
      },
      {x});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return ScatterNd(s, Const(s, {{2, 1}, {2, 1}}), x[0], Const(s, {3, 4}));
      },
      {updates});
  for (const char* op : {"TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub", "TensorScatterMax",
                         "TensorScatterMin", "ScatterNdNonAliasingAdd"}) {
    ExpectGradient(
        [op](const Scope& s, const std::vector<Output>& x) {
          return Output(s.Add(op, {x[0], Const(s, {{2, 1}, {0, 3}}), x[1]}));
        },
        {x, updates});
  }
}

}  // namespace
}  // namespace thalweg
