// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(UnsortedSegmentTest, Values) {
  const Tensor x = Tensor::Of<float>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), ids = Ints({2, 0, 2, -1});
  constexpr float kLowest = std::numeric_limits<float>::lowest(), kHighest = std::numeric_limits<float>::max();
  ExpectTensor(Result("UnsortedSegmentSum", {x, ids, Int(3)}), Tensor::Of<float>({3, 2}, {3, 4, 0, 0, 6, 8}));
  ExpectTensor(Result("UnsortedSegmentProd", {x, ids, Int(3)}), Tensor::Of<float>({3, 2}, {3, 4, 1, 1, 5, 12}));
  ExpectTensor(Result("UnsortedSegmentMax", {x, ids, Int(3)}),
               Tensor::Of<float>({3, 2}, {3, 4, kLowest, kLowest, 5, 6}));
  ExpectTensor(Result("UnsortedSegmentMin", {x, ids, Int(3)}),
               Tensor::Of<float>({3, 2}, {3, 4, kHighest, kHighest, 1, 2}));
}

TEST(UnsortedSegmentTest, ShapesAndTypes) {
  ExpectTensor(Result("UnsortedSegmentSum", {Tensor::Of<int64_t>({2, 2}, {1, 2, 3, 4}),
                                             Tensor::Of<int64_t>({2, 2}, {0, 1, 1, 1}), Tensor::Scalar<int64_t>(2)}),
               Longs({1, 9}));
  ExpectTensor(Result("UnsortedSegmentSum", {Tensor::Vector<Half>({Half(1), Half(2)}), Ints({1, 1}), Int(2)}),
               Tensor::Vector<Half>({Half(0), Half(3)}));
  ExpectTensor(Result("UnsortedSegmentSum", {Tensor(kFloat, {0, 2}), Ints({}), Int(1)}),
               Tensor::Of<float>({1, 2}, {0, 0}));
  EXPECT_EQ(*InferShape("UnsortedSegmentSum", {{kFloat, {-1, 3}}, {kInt32, {-1}}, {kInt32, {}}}), "[?,3]");
}

// Threads share the columns.
TEST(UnsortedSegmentTest, Large) {
  Tensor ids(kInt32, {2000});
  for (int i = 0; i < 2000; ++i) ids.mutable_data<int32_t>()[i] = i % 8 - 1;
  for (const int64_t columns : {1, 31, 32, 33, 100, 300}) {
    const Tensor x = TestValues(kDouble, {2000, columns});
    Tensor sums(kDouble, {7, columns});
    std::fill_n(sums.mutable_data<double>(), 7 * columns, 0.0);
    for (int i = 0; i < 2000; ++i) {
      for (int64_t j = 0; j < columns && i % 8 > 0; ++j) {
        sums.mutable_data<double>()[(i % 8 - 1) * columns + j] += x.data<double>()[i * columns + j];
      }
    }
    ExpectTensor(Result("UnsortedSegmentSum", {x, ids, Int(7)}), sums, 1e-9);
  }
}

TEST(UnsortedSegmentTest, BadInput) {
  const Tensor x = Counting({4, 2});
  ExpectInvalid(KernelError("UnsortedSegmentSum", {x, Ints({0, 1, 0, 3}), Int(3)}),
                "segment_ids[3] = 3 is out of range [0, 3)");
  ExpectInvalid(KernelError("UnsortedSegmentSum", {x, Ints({0, 1}), Int(3)}),
                "data.shape = [4,2] does not start with segment_ids.shape = [2]");
  ExpectInvalid(KernelError("UnsortedSegmentSum", {x, Ints({0, 1, 0, 1}), Int(-1)}),
                "Input num_segments == -1 must not be negative.");
  ExpectInvalid(KernelError("UnsortedSegmentSum", {x, Ints({0, 1, 0, 1}), Ints({2})}),
                "num_segments should be a scalar");
}

TEST(UnsortedSegmentTest, Gradients) {
  const Tensor x = TestValues(kDouble, {4, 2});
  for (const char* op : {"UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin"}) {
    ExpectGradient(
        [op](const Scope& s, const std::vector<Output>& x) {
          return Output(s.Add(op, {x[0], Const(s, {1, 0, 1, -1}), Const(s, 2)}));
        },
        {x});
  }
  // Products with one zero and with two.
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return UnsortedSegmentProd(s, x[0], Const(s, {0, 0, 1, 1, 1}), Const(s, 2));
      },
      {Tensor::Vector<double>({0, 3, 0, 0, 5})});
}

}  // namespace
}  // namespace thalweg
