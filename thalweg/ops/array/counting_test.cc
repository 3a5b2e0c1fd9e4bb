// SPDX-License-Identifier: Apache-2.0
// Tests of the ops that count, search and place: bincount.cc, search_sorted.cc,
// list_diff.cc, edit_distance.cc, sparse_to_dense.cc.
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

std::string Error(absl::string_view op, std::vector<OpArg> inputs, std::vector<AttrArg> attrs = {}) {
  return std::string(RunOp(op, std::move(inputs), std::move(attrs)).status().message());
}

const Tensor kNone = Tensor(kFloat, {0});

TEST(CountingTest, Bincount) {
  const Tensor x = Tensor::Vector<int32_t>({1, 3, 1, 9});
  ExpectTensor(Result("Bincount", {x, Tensor::Scalar<int32_t>(4), kNone}), Tensor::Vector<float>({0, 2, 0, 1}));
  ExpectTensor(Result("DenseBincount", {x, Tensor::Scalar<int32_t>(4), kNone}, {{"binary_output", true}}),
               Tensor::Vector<float>({0, 1, 0, 1}));
  ExpectTensor(Result("RaggedBincount", {Tensor::Vector<int64_t>({0, 1, 1, 4}), x, Tensor::Scalar<int32_t>(4), kNone}),
               Tensor::Of<float>({3, 4}, {0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1}));
  EXPECT_THAT(Error("Bincount", {Tensor::Vector<int32_t>({-1}), Tensor::Scalar<int32_t>(4), kNone}),
              HasSubstr("non-negative"));
  EXPECT_FALSE(RunOp("Bincount", {x, Tensor::Scalar<int32_t>(-4), kNone}).ok());
  EXPECT_FALSE(
      RunOp("RaggedBincount", {Tensor::Vector<int64_t>({0, 3, 1, 4}), x, Tensor::Scalar<int32_t>(4), kNone}).ok());
  EXPECT_FALSE(RunOp("SparseBincount", {Tensor::Of<int64_t>({1, 2}, {7, 0}), Tensor::Vector<int32_t>({1}),
                                        Tensor::Vector<int64_t>({3, 3}), Tensor::Scalar<int32_t>(4), kNone})
                   .ok());
}

TEST(CountingTest, Histogram) {
  const Tensor x = Tensor::Vector<float>({-9, 0, 1, 2.5, 9});
  ExpectTensor(Result("HistogramFixedWidth", {x, Tensor::Vector<float>({0, 4}), Tensor::Scalar<int32_t>(4)}),
               Tensor::Vector<int32_t>({2, 1, 1, 1}));
  // Positions between infinite limits are NaN.
  ExpectTensor(Result("HistogramFixedWidth", {Tensor::Vector<float>({1, 2}), Tensor::Vector<float>({-HUGE_VALF, 4}),
                                              Tensor::Scalar<int32_t>(2)}),
               Tensor::Vector<int32_t>({2, 0}));
  EXPECT_FALSE(RunOp("HistogramFixedWidth", {x, Tensor::Vector<float>({4, 0}), Tensor::Scalar<int32_t>(4)}).ok());
  EXPECT_FALSE(RunOp("Bucketize", {x}, {{"boundaries", std::vector<float>{2, 1}}}).ok());
}

TEST(CountingTest, Search) {
  const Tensor sorted = Tensor::Of<int32_t>({1, 4}, {1, 3, 3, 5}), values = Tensor::Of<int32_t>({1, 3}, {0, 3, 9});
  ExpectTensor(Result("LowerBound", {sorted, values}), Tensor::Of<int32_t>({1, 3}, {0, 1, 4}));
  ExpectTensor(Result("UpperBound", {sorted, values}), Tensor::Of<int32_t>({1, 3}, {0, 3, 4}));
  ExpectTensor(Result("NthElement", {sorted, Tensor::Scalar<int32_t>(0)}, {{"reverse", true}}),
               Tensor::Vector<int32_t>({5}));
  EXPECT_FALSE(RunOp("NthElement", {sorted, Tensor::Scalar<int32_t>(-1)}).ok());
  ExpectTensor(Result("ListDiff", {Tensor::Vector<int32_t>({4, 1, 4, 2}), Tensor::Vector<int32_t>({1})}),
               Tensor::Vector<int32_t>({4, 4, 2}));
  ExpectTensor(Result("UnravelIndex", {Tensor::Vector<int32_t>({5}), Tensor::Vector<int32_t>({2, 3})}),
               Tensor::Of<int32_t>({2, 1}, {1, 2}));
  EXPECT_FALSE(RunOp("UnravelIndex", {Tensor::Vector<int32_t>({-1}), Tensor::Vector<int32_t>({2, 3})}).ok());
  EXPECT_FALSE(RunOp("UnravelIndex", {Tensor::Vector<int32_t>({1}), Tensor::Vector<int32_t>({1 << 30, 1 << 30})}).ok());
}

TEST(CountingTest, EditDistance) {
  // "kitten" and "sitting".
  const auto word = [](const std::string& text) {
    Tensor indices(kInt64, {static_cast<int64_t>(text.size()), 2}), values(kInt32, {static_cast<int64_t>(text.size())});
    for (size_t i = 0; i < text.size(); ++i) {
      indices.flat<int64_t>()[2 * i] = 0;
      indices.flat<int64_t>()[2 * i + 1] = static_cast<int64_t>(i);
      values.flat<int32_t>()[i] = text[i];
    }
    return std::pair(indices, values);
  };
  const auto [a, b] = word("sitting");
  const auto [c, d] = word("kitten");
  const Tensor shape = Tensor::Vector<int64_t>({1, 7});
  ExpectTensor(Result("EditDistance", {a, b, shape, c, d, shape}, {{"normalize", false}}), Tensor::Vector<float>({3}));
  ExpectTensor(Result("EditDistance", {a, b, shape, c, d, shape}), Tensor::Vector<float>({0.5}));
  EXPECT_FALSE(RunOp("EditDistance", {a, b, Tensor::Vector<int64_t>({1, 3}), c, d, shape}).ok());
}

TEST(CountingTest, SparseToDense) {
  const Tensor shape = Tensor::Vector<int64_t>({2, 2}), value = Tensor::Vector<float>({5}), zero = Tensor::Scalar(0.0f);
  ExpectTensor(Result("SparseToDense", {Tensor::Of<int64_t>({1, 2}, {1, 0}), shape, value, zero}),
               Tensor::Of<float>({2, 2}, {0, 0, 5, 0}));
  EXPECT_THAT(Error("SparseToDense", {Tensor::Of<int64_t>({1, 2}, {1, 2}), shape, value, zero}),
              HasSubstr("indices[0] = [1,2] is out of bounds"));
  EXPECT_FALSE(
      RunOp("SparseToDense", {Tensor::Of<int64_t>({1, 2}, {1, 2}), shape, value, zero}, {{"validate_indices", false}})
          .ok());
  EXPECT_FALSE(RunOp("SparseToDense",
                     {Tensor::Of<int64_t>({1, 2}, {0, 0}), Tensor::Vector<int64_t>({int64_t{1} << 62, 4}), value, zero})
                   .ok());
}

}  // namespace
}  // namespace thalweg
