// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

const Tensor kWords = Tensor::Vector<std::string>({"a", "b", "c", "d"});
const Tensor kSplits = Tensor::Vector<int64_t>({0, 3, 3, 4});

absl::StatusOr<std::vector<Tensor>> NGrams(std::vector<int64_t> widths, int64_t pad, bool preserve = false,
                                           const Tensor& splits = kSplits) {
  return RunOp("StringNGrams", {kWords, splits},
               {{"separator", " "},
                {"ngram_widths", widths},
                {"left_pad", "<"},
                {"right_pad", ">"},
                {"pad_width", pad},
                {"preserve_short_sequences", preserve}});
}

TEST(StringNGramsTest, RunsOfRows) {
  const auto pairs = NGrams({2}, 0);
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  ExpectTensor((*pairs)[0], Tensor::Vector<std::string>({"a b", "b c"}));
  ExpectTensor((*pairs)[1], Tensor::Vector<int64_t>({0, 2, 2, 2}));
  ExpectTensor((*NGrams({2}, -1))[0], Tensor::Vector<std::string>({"< a", "a b", "b c", "c >", "< >", "< d", "d >"}));
  ExpectTensor((*NGrams({2}, 0, true))[0], Tensor::Vector<std::string>({"a b", "b c", "d"}));
}

TEST(StringNGramsTest, BadInputIsAnError) {
  EXPECT_FALSE(NGrams({0}, 0).ok());
  EXPECT_FALSE(NGrams({2}, 0, false, Tensor::Vector<int64_t>({1, 4})).ok());
  EXPECT_FALSE(NGrams({2}, 0, false, Tensor::Vector<int64_t>({0, 3})).ok());
  EXPECT_FALSE(NGrams({2}, 0, false, Tensor::Vector<int64_t>({0, 3, 2, 4})).ok());
  EXPECT_EQ(NGrams({1 << 30}, -1).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(CountSparseTest, BadInputIsAnError) {
  const Tensor values = Tensor::Vector<int32_t>({3, 1, 3}), none = Tensor(kFloat, {0});
  const std::vector<AttrArg> plain = {{"binary_output", false}};
  EXPECT_TRUE(RunOp("DenseCountSparseOutput", {values, none}, plain).ok());
  EXPECT_FALSE(RunOp("DenseCountSparseOutput", {Tensor::Scalar<int32_t>(1), none}, plain).ok());
  EXPECT_FALSE(RunOp("DenseCountSparseOutput", {values, Tensor(kFloat, {2})}, plain).ok());
  EXPECT_FALSE(RunOp("RaggedCountSparseOutput", {Tensor::Vector<int64_t>({0, 2}), values, none}, plain).ok());
  EXPECT_FALSE(RunOp("RaggedCountSparseOutput", {Tensor::Vector<int64_t>({0, 3, 2, 3}), values, none}, plain).ok());
  const auto sparse = [&](int64_t row) {
    return RunOp(
        "SparseCountSparseOutput",
        {Tensor::Of<int64_t>({1, 2}, {row, 0}), Tensor::Vector<int32_t>({4}), Tensor::Vector<int64_t>({2, 5}), none},
        plain);
  };
  EXPECT_TRUE(sparse(1).ok());
  EXPECT_FALSE(sparse(2).ok());
  EXPECT_FALSE(sparse(-1).ok());
}

}  // namespace
}  // namespace thalweg
