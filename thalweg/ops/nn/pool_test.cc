// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/nn_ops.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;
using Sizes = std::vector<int64_t>;

absl::StatusOr<std::vector<Tensor>> Pool(absl::string_view op, std::vector<OpArg> inputs, Sizes ksize, Sizes strides,
                                         const char* padding) {
  return RunOp(op, std::move(inputs), {{"ksize", ksize}, {"strides", strides}, {"padding", padding}});
}
Tensor PoolResult(absl::string_view op, std::vector<OpArg> inputs, Sizes ksize, Sizes strides, const char* padding) {
  const absl::StatusOr<std::vector<Tensor>> y = Pool(op, std::move(inputs), ksize, strides, padding);
  EXPECT_TRUE(y.ok()) << op << ": " << y.status();
  return y.ok() ? (*y)[0] : Tensor();
}

const Tensor kImage = Tensor::Of<float>({1, 3, 3, 1}, {1, 5, 2, 8, 4, 3, 7, 6, 9});

TEST(PoolTest, Values) {
  ExpectTensor(PoolResult("MaxPool", {kImage}, {1, 2, 2, 1}, {1, 1, 1, 1}, "VALID"),
               Tensor::Of<float>({1, 2, 2, 1}, {8, 5, 8, 9}));
  ExpectTensor(PoolResult("MaxPool", {kImage}, {1, 2, 2, 1}, {1, 2, 2, 1}, "SAME"),
               Tensor::Of<float>({1, 2, 2, 1}, {8, 3, 7, 9}));
  ExpectTensor(PoolResult("AvgPool", {kImage}, {1, 2, 2, 1}, {1, 2, 2, 1}, "SAME"),
               Tensor::Of<float>({1, 2, 2, 1}, {4.5, 2.5, 6.5, 9}));
}

// Several images and channels: shared between threads, in loops of full vectors and not.
TEST(PoolTest, MaxOfManyChannels) {
  constexpr int64_t kImages = 6, kSide = 21, kOut = 11;
  for (const int64_t channels : {3, 37}) {
    const Tensor x = TestValues(kFloat, {kImages, kSide, kSide, channels}, -1, 1);
    Tensor expected(kFloat, {kImages, kOut, kOut, channels});
    float* to = expected.mutable_data<float>();
    for (int64_t i = 0; i < kImages * kOut * kOut * channels; ++i) {
      const int64_t c = i % channels, column = i / channels % kOut, row = i / channels / kOut % kOut;
      to[i] = -2;
      for (int64_t y = std::max<int64_t>(0, 2 * row - 1); y < std::min(kSide, 2 * row + 2); ++y) {
        for (int64_t z = std::max<int64_t>(0, 2 * column - 1); z < std::min(kSide, 2 * column + 2); ++z) {
          const int64_t image = i / (kOut * kOut * channels);
          to[i] = std::max(to[i], x.data<float>()[((image * kSide + y) * kSide + z) * channels + c]);
        }
      }
    }
    ExpectTensor(PoolResult("MaxPool", {x}, {1, 3, 3, 1}, {1, 2, 2, 1}, "SAME"), expected);
  }
}

TEST(PoolTest, Argmax) {
  const absl::StatusOr<std::vector<Tensor>> y =
      Pool("MaxPoolWithArgmax", {kImage}, {1, 2, 2, 1}, {1, 1, 1, 1}, "VALID");
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectTensor((*y)[1], Tensor::Of<int64_t>({1, 2, 2, 1}, {3, 1, 3, 8}));
  const Tensor dy = Tensor::Of<float>({1, 2, 2, 1}, {1, 2, 3, 4});
  const Tensor expected = Tensor::Of<float>({1, 3, 3, 1}, {0, 2, 0, 4, 0, 0, 0, 0, 4});
  ExpectTensor(PoolResult("MaxPoolGradWithArgmax", {kImage, dy, (*y)[1]}, {1, 2, 2, 1}, {1, 1, 1, 1}, "VALID"),
               expected);
  ExpectTensor(PoolResult("MaxPoolGrad", {kImage, (*y)[0], dy}, {1, 2, 2, 1}, {1, 1, 1, 1}, "VALID"), expected);
  for (const int64_t bad : {int64_t{-1}, int64_t{9}}) {
    EXPECT_FALSE(Pool("MaxPoolGradWithArgmax", {kImage, dy, Tensor::Of<int64_t>({1, 2, 2, 1}, {0, 0, bad, 0})},
                      {1, 2, 2, 1}, {1, 1, 1, 1}, "VALID")
                     .ok());
  }
}

// The first of several equal elements gets the gradient. So does a NaN that comes first.
TEST(PoolTest, TiesAndNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor dy = Tensor::Of<float>({1, 1, 1, 1}, {5}), y = dy;
  ExpectTensor(PoolResult("MaxPoolGrad", {Tensor::Of<float>({1, 2, 2, 1}, {1, 3, 3, 3}), y, dy}, {1, 2, 2, 1},
                          {1, 1, 1, 1}, "VALID"),
               Tensor::Of<float>({1, 2, 2, 1}, {0, 5, 0, 0}));
  ExpectTensor(PoolResult("MaxPoolGrad", {Tensor::Of<float>({1, 2, 2, 1}, {nan, 3, 3, 3}), y, dy}, {1, 2, 2, 1},
                          {1, 1, 1, 1}, "VALID"),
               Tensor::Of<float>({1, 2, 2, 1}, {5, 0, 0, 0}));
}

TEST(PoolTest, Gradients) {
  const Tensor x = TestValues(kDouble, {2, 5, 6, 3}, -9, 9);
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& v) {
        return MaxPool(s, v[0], {1, 3, 2, 1}, {1, 2, 2, 1}, Padding::kSame);
      },
      {x});
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& v) {
        return AvgPool(s, v[0], {1, 3, 2, 1}, {1, 2, 1, 1}, Padding::kSame);
      },
      {x});
  const Tensor volume = TestValues(kDouble, {1, 3, 4, 5, 2}, -9, 9);
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& v) {
        return AvgPool3D(s, v[0], {1, 2, 3, 2, 1}, {1, 1, 2, 1, 1}, Padding::kValid);
      },
      {volume});
  const Tensor floats = TestValues(kFloat, {1, 3, 4, 5, 2}, -9, 9);
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& v) {
        return MaxPool3D(s, v[0], {1, 2, 2, 2, 1}, {1, 1, 2, 1, 1}, Padding::kSame);
      },
      {floats}, 1e-2);
}

TEST(PoolTest, GradientOfGradient) {
  const Tensor x = TestValues(kDouble, {1, 4, 4, 2}, -9, 9);
  const Tensor y = PoolResult("MaxPool", {x}, {1, 2, 2, 1}, {1, 2, 2, 1}, "VALID");
  ExpectGradient(
      [&](const Scope& s, const std::vector<Output>& v) {
        return Output(s.Add("MaxPoolGrad",
                            {Output(s.Add("Const", {}, {{"value", x}, {"dtype", kDouble}})),
                             Output(s.Add("Const", {}, {{"value", y}, {"dtype", kDouble}})), v[0]},
                            {{"ksize", Sizes{1, 2, 2, 1}}, {"strides", Sizes{1, 2, 2, 1}}, {"padding", "VALID"}}));
      },
      {TestValues(kDouble, y.shape())});
}

TEST(PoolTest, BadInput) {
  EXPECT_FALSE(Pool("MaxPool", {kImage}, {1, 0, 2, 1}, {1, 1, 1, 1}, "VALID").ok());
  EXPECT_FALSE(Pool("MaxPool", {kImage}, {1, 2, 2, 1}, {1, 0, 1, 1}, "VALID").ok());
  EXPECT_FALSE(Pool("MaxPool", {kImage}, {2, 2, 2, 1}, {1, 1, 1, 1}, "VALID").ok());
  EXPECT_FALSE(Pool("MaxPool", {kImage}, {1, 9, 2, 1}, {1, 1, 1, 1}, "VALID").ok());
  EXPECT_FALSE(Pool("MaxPool", {kImage}, {1, 2, 2}, {1, 1, 1, 1}, "VALID").ok());
  EXPECT_FALSE(Pool("MaxPoolGrad", {kImage, kImage, kImage}, {1, 2, 2, 1}, {1, 1, 1, 1}, "VALID").ok());
  EXPECT_FALSE(
      Pool("AvgPoolGrad", {Tensor::Vector<int32_t>({1, 3, -3, 1}), kImage}, {1, 1, 1, 1}, {1, 1, 1, 1}, "VALID").ok());
  EXPECT_FALSE(
      Pool("AvgPoolGrad", {Tensor::Vector<int32_t>({1, 3, 3}), kImage}, {1, 1, 1, 1}, {1, 1, 1, 1}, "VALID").ok());
  EXPECT_FALSE(RunOp("MaxPoolV2", {kImage, Tensor::Vector<int32_t>({1, 2}), Tensor::Vector<int32_t>({1, 1, 1, 1})},
                     {{"padding", "SAME"}})
                   .ok());
  EXPECT_FALSE(RunOp("MaxPoolV2",
                     {kImage, Tensor::Vector<int32_t>({1, 2, 2, 0}), Tensor::Vector<int32_t>({1, 1, 1, 1})},
                     {{"padding", "SAME"}})
                   .ok());
}

TEST(PoolTest, EmptyAndShapes) {
  EXPECT_EQ(PoolResult("MaxPool", {Tensor(kFloat, {0, 3, 3, 2})}, {1, 2, 2, 1}, {1, 1, 1, 1}, "VALID").shape(),
            Shape({0, 2, 2, 2}));
  EXPECT_EQ(PoolResult("AvgPool", {Tensor(kFloat, {2, 3, 3, 0})}, {1, 2, 2, 1}, {1, 1, 1, 1}, "VALID").shape(),
            Shape({2, 2, 2, 0}));
  EXPECT_EQ(InferShape("MaxPool", {{kFloat, {-1, 24, 24, 64}}},
                       {{"ksize", Sizes{1, 3, 3, 1}}, {"strides", Sizes{1, 2, 2, 1}}, {"padding", "SAME"}})
                .value(),
            "[?,12,12,64]");
}

}  // namespace
}  // namespace thalweg
