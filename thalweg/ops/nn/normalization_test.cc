// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/nn_ops.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

TEST(LrnTest, Values) {
  const absl::StatusOr<std::vector<Tensor>> y =
      RunOp("LRN", {Tensor::Of<float>({1, 1, 1, 3}, {1, 2, 3})},
            {{"depth_radius", 1}, {"bias", 1.0f}, {"alpha", 1.0f}, {"beta", 0.75f}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectTensor((*y)[0], Tensor::Of<float>({1, 1, 1, 3}, {std::pow(6.0f, -0.75f), 2 * std::pow(15.0f, -0.75f),
                                                         3 * std::pow(14.0f, -0.75f)}));
}

TEST(LrnTest, Gradient) {
  for (const float beta : {0.75f, 0.5f, 1.0f, 0.3f}) {
    ExpectGradient(
        [&](const Scope& s, const std::vector<Output>& v) {
          return Lrn(s, v[0], {.depth_radius = 2, .bias = 1, .alpha = 0.3f, .beta = beta});
        },
        {TestValues(kFloat, {1, 2, 2, 11})}, 1e-2);
  }
}

TEST(LrnTest, BadInput) {
  EXPECT_FALSE(RunOp("LRN", {TestValues(kFloat, {2, 3})}).ok());
  EXPECT_FALSE(RunOp("LRN", {TestValues(kFloat, {1, 1, 2, 3})}, {{"depth_radius", -1}}).ok());
  const Tensor x = TestValues(kFloat, {1, 1, 2, 3});
  EXPECT_FALSE(RunOp("LRNGrad", {x, x, TestValues(kFloat, {1, 1, 2, 4})}).ok());
}

std::vector<Tensor> Vectors(int64_t channels) {
  std::vector<Tensor> v;
  for (int i = 0; i < 4; ++i) v.push_back(TestValues(kFloat, {channels}, 0.5, 1.5, i));
  return v;
}

TEST(BatchNormTest, Values) {
  const Tensor x = Tensor::Of<float>({1, 2, 2, 1}, {1, 2, 3, 6}), one = Tensor::Vector<float>({1}),
               zero = Tensor::Vector<float>({0});
  const absl::StatusOr<std::vector<Tensor>> y =
      RunOp("FusedBatchNormV3", {x, one, zero, zero, zero}, {{"epsilon", 0.0f}});
  ASSERT_TRUE(y.ok()) << y.status();
  const float d = std::sqrt(3.5f);
  ExpectTensor((*y)[0], Tensor::Of<float>({1, 2, 2, 1}, {-2 / d, -1 / d, 0, 3 / d}));
  ExpectTensor((*y)[1], Tensor::Vector<float>({3}));
  ExpectTensor((*y)[2], Tensor::Vector<float>({3.5f * 4 / 3}));
  ExpectTensor((*y)[4], Tensor::Vector<float>({3.5f}));
}

TEST(BatchNormTest, Gradients) {
  const std::vector<Tensor> v = Vectors(3);
  for (const bool training : {true, false}) {
    for (const DataFormat format : {DataFormat::kChannelsLast, DataFormat::kChannelsFirst}) {
      const Shape shape = format == DataFormat::kChannelsLast ? Shape({2, 3, 2, 3}) : Shape({2, 3, 3, 2});
      ExpectGradient(
          [&](const Scope& s, const std::vector<Output>& in) {
            return FusedBatchNorm(s, in[0], in[1], in[2], Const(s, v[2]), Const(s, v[3]),
                                  {.is_training = training, .data_format = format})
                .y;
          },
          {TestValues(kFloat, shape), v[0], v[1]}, 2e-2);
    }
  }
}

TEST(BatchNormTest, BadInput) {
  const Tensor x = TestValues(kFloat, {1, 2, 2, 3});
  const std::vector<Tensor> v = Vectors(3), w = Vectors(2);
  EXPECT_FALSE(RunOp("FusedBatchNormV3", {x, w[0], v[1], v[2], v[3]}).ok());
  EXPECT_FALSE(RunOp("FusedBatchNormV3", {x, v[0], v[1], w[2], v[3]}, {{"is_training", false}}).ok());
  EXPECT_FALSE(RunOp("FusedBatchNormV3", {TestValues(kFloat, {2, 3}), v[0], v[1], v[2], v[3]}).ok());
  EXPECT_FALSE(RunOp("FusedBatchNormGradV2", {TestValues(kFloat, {1, 2, 1, 3}), x, v[0], v[2], v[3]}).ok());
  EXPECT_FALSE(RunOp("FusedBatchNormGradV2", {x, x, v[0], w[2], v[3]}).ok());
  const absl::StatusOr<std::vector<Tensor>> empty =
      RunOp("FusedBatchNormV3", {Tensor(kFloat, {0, 2, 2, 3}), v[0], v[1], v[2], v[3]});
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_TRUE(std::isnan((*empty)[1].data<float>()[0]));
}

}  // namespace
}  // namespace thalweg
