// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(SegmentTest, Values) {
  const Tensor x = Tensor::Of<float>({4, 1}, {1, 2, 3, 5}), ids = Ints({0, 0, 2, 2});
  const auto column = [](std::initializer_list<float> v) { return Tensor::Of<float>({3, 1}, v); };
  ExpectTensor(Result("SegmentSum", {x, ids}), column({3, 0, 8}));
  ExpectTensor(Result("SegmentMean", {x, ids}), column({1.5, 0, 4}));
  ExpectTensor(Result("SegmentProd", {x, ids}), column({2, 1, 15}));
  ExpectTensor(Result("SegmentMax", {x, ids}), column({2, 0, 5}));
  ExpectTensor(Result("SegmentMin", {x, ids}), column({1, 0, 3}));
  ExpectTensor(Result("SegmentMean", {Ints({1, 2}), Longs({0, 0})}), Ints({1}));
  ExpectTensor(Result("SegmentSum", {Tensor(kFloat, {0, 3}), Ints({})}), Tensor(kFloat, {0, 3}));
}

TEST(SegmentTest, BadInput) {
  const Tensor x = Counting({3});
  ExpectInvalid(KernelError("SegmentSum", {x, Ints({0, 1})}),
                "segment_ids should be the same size as dimension 0 of input.");
  ExpectInvalid(KernelError("SegmentSum", {x, Ints({0, 1, 0})}), "segment ids are not increasing");
  ExpectInvalid(KernelError("SegmentSum", {x, Ints({0, 0, -1})}), "segment ids must be >= 0");
  ExpectInvalid(KernelError("SegmentSum", {x, Ints({-1, 0, 0})}), "Segment id -1 out of range [0, 1)");
  ExpectInvalid(KernelError("SegmentSum", {x, Int(0)}), "segment_ids should be a vector.");
  EXPECT_EQ(*InferShape("SegmentSum", {{kFloat, {-1, 3}}, {kInt32, {4}}}), "[?,3]");
}

TEST(SegmentTest, Gradients) {
  const Tensor x = TestValues(kDouble, {4, 2});
  for (const char* op : {"SegmentSum", "SegmentMean", "SegmentProd", "SegmentMax", "SegmentMin"}) {
    ExpectGradient(
        [op](const Scope& s, const std::vector<Output>& x) {
          return Output(s.Add(op, {x[0], Const(s, {0, 0, 2, 2})}));
        },
        {x});
  }
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return SegmentProd(s, x[0], Const(s, {0, 0, 1, 1}));
      },
      {Tensor::Vector<double>({0, 3, 0, 0})});
}

TEST(SparseSegmentTest, Values) {
  const Tensor x = Tensor::Of<float>({3, 1}, {1, 2, 4}), indices = Ints({0, 2, 1}), ids = Ints({0, 0, 2});
  const auto column = [](std::initializer_list<float> v) {
    return Tensor::Of<float>(Shape({static_cast<int64_t>(v.size()), 1}), v);
  };
  ExpectTensor(Result("SparseSegmentSum", {x, indices, ids}), column({5, 0, 2}));
  ExpectTensor(Result("SparseSegmentMean", {x, indices, ids}), column({2.5, 0, 2}));
  ExpectTensor(Result("SparseSegmentSqrtN", {x, indices, ids}), column({5 / std::sqrt(2.f), 0, 2}));
  ExpectTensor(Result("SparseSegmentSumWithNumSegments", {x, indices, ids, Int(4)}), column({5, 0, 2, 0}));
  const Tensor grad = column({1, 0, 3});
  ExpectTensor(Result("SparseSegmentSumGrad", {grad, indices, ids, Int(3)}), column({1, 3, 1}));
  ExpectTensor(Result("SparseSegmentMeanGrad", {grad, indices, ids, Int(3)}), column({0.5, 3, 0.5}));
  ExpectTensor(Result("SparseSegmentSqrtNGrad", {grad, indices, ids, Int(3)}),
               column({std::sqrt(0.5f), 3, std::sqrt(0.5f)}));
}

TEST(SparseSegmentTest, BadInput) {
  const Tensor x = Counting({3, 2});
  const auto error = [&](Tensor indices, Tensor ids) { return KernelError("SparseSegmentSum", {x, indices, ids}); };
  ExpectInvalid(error(Ints({0, 3}), Ints({0, 0})), "Bad: indices[1] == 3 out of range [0, 3)");
  ExpectInvalid(error(Ints({0, -1}), Ints({0, 0})), "Bad: indices[1] == -1 out of range [0, 3)");
  ExpectInvalid(error(Ints({0}), Ints({0, 0})), "segment_ids and indices should have same size.");
  ExpectInvalid(error(Ints({0, 0}), Ints({1, 0})), "segment ids are not increasing");
  ExpectInvalid(error(Int(0), Ints({0})), "indices should be a vector.");
  ExpectInvalid(KernelError("SparseSegmentSumWithNumSegments", {x, Ints({0}), Ints({3}), Int(2)}),
                "segment ids must be < num_segments");
  ExpectInvalid(KernelError("SparseSegmentSumGrad", {x, Ints({5}), Ints({0}), Int(5)}), "Index 5 out of range [0, 5).");
  ExpectInvalid(KernelError("SparseSegmentSumGrad", {x, Ints({0}), Ints({3}), Int(5)}),
                "Segment id 3 out of range [0, 3).");
}

TEST(SparseSegmentTest, Gradients) {
  const Tensor x = TestValues(kDouble, {4, 2});
  for (const char* op : {"SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"}) {
    ExpectGradient(
        [op](const Scope& s, const std::vector<Output>& x) {
          return Output(s.Add(op, {x[0], Const(s, {3, 0, 3}), Const(s, {0, 0, 1})}));
        },
        {x});
    ExpectGradient(
        [op](const Scope& s, const std::vector<Output>& x) {
          return Output(s.Add(absl::StrCat(op, "WithNumSegments"),
                              {x[0], Const(s, {3, 0, 3}), Const(s, {0, 0, 1}), Const(s, 3)}));
        },
        {x});
  }
}

}  // namespace
}  // namespace thalweg
