// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

const Tensor kSplits = Tensor::Vector<int64_t>({0, 2, 2, 5});
const Tensor kValues = Tensor::Vector<float>({1, 2, 3, 4, 5});

std::vector<OpArg> Gathered(const Tensor& splits, const Tensor& indices) {
  return {OpArg(std::vector<Tensor>{splits}), kValues, indices};
}

TEST(RaggedTest, GathersRows) {
  const auto rows =
      RunOp("RaggedGather", Gathered(kSplits, Tensor::Vector<int32_t>({2, 1, 0})), {{"OUTPUT_RAGGED_RANK", 1}});
  ASSERT_TRUE(rows.ok()) << rows.status();
  ExpectTensor((*rows)[0], Tensor::Vector<int64_t>({0, 3, 3, 5}));
  ExpectTensor((*rows)[1], Tensor::Vector<float>({3, 4, 5, 1, 2}));
}

TEST(RaggedTest, BadInputIsAnError) {
  const auto gather = [](const Tensor& splits, const Tensor& indices, int rank = 1) {
    return RunOp("RaggedGather", Gathered(splits, indices), {{"OUTPUT_RAGGED_RANK", rank}}).ok();
  };
  EXPECT_FALSE(gather(kSplits, Tensor::Vector<int32_t>({3})));
  EXPECT_FALSE(gather(kSplits, Tensor::Vector<int32_t>({-1})));
  EXPECT_FALSE(gather(kSplits, Tensor::Vector<int32_t>({0}), 2));
  EXPECT_FALSE(gather(Tensor::Vector<int64_t>({0, 9}), Tensor::Vector<int32_t>({0})));
  const auto dense = [](const Tensor& shape, const Tensor& part, const char* type, const Tensor& fallback) {
    return RunOp("RaggedTensorToTensor", {shape, kValues, fallback, OpArg(std::vector<Tensor>{part})},
                 {{"row_partition_types", std::vector<std::string>{type}}})
        .ok();
  };
  const Tensor any = Tensor::Vector<int32_t>({-1, -1}), zero = Tensor::Scalar(0.0f);
  EXPECT_TRUE(dense(any, kSplits, "ROW_SPLITS", zero));
  EXPECT_FALSE(dense(any, kSplits, "ROW_LENGTHS", zero));
  EXPECT_FALSE(dense(any, Tensor::Vector<int64_t>({0, 4}), "ROW_SPLITS", zero));
  EXPECT_FALSE(dense(any, kSplits, "ROW_SPLITS", kValues));
  EXPECT_FALSE(dense(Tensor::Vector<int32_t>({-1, -2}), kSplits, "ROW_SPLITS", zero));
  EXPECT_FALSE(dense(Tensor::Vector<int32_t>({1 << 30, 1 << 30}), kSplits, "ROW_SPLITS", zero));
  EXPECT_FALSE(dense(any, Tensor::Scalar<int64_t>(1), "ROW_SPLITS", zero));
  EXPECT_FALSE(
      RunOp("RaggedFillEmptyRows", {Tensor::Vector<int64_t>({0}), kValues, Tensor::Scalar<int64_t>(2), zero}).ok());
  EXPECT_FALSE(RunOp("RaggedTensorToVariant", {OpArg(std::vector<Tensor>{kValues.Bitcast(kInt32)}), kValues},
                     {{"batched_input", true}})
                   .ok());
  EXPECT_FALSE(RunOp("RaggedTensorFromVariant", {Tensor(kVariant, Shape())},
                     {{"input_ragged_rank", -1}, {"output_ragged_rank", 1}, {"Tvalues", kFloat}})
                   .ok());
}

}  // namespace
}  // namespace thalweg
