// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

TEST(BiasAddTest, LastDimension) {
  const Tensor x = Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6}), bias = Tensor::Vector<float>({10, 20, 30});
  ExpectTensor(Result("BiasAdd", {x, bias}), Tensor::Of<float>({2, 3}, {11, 22, 33, 14, 25, 36}));
  ExpectTensor(Result("BiasAddV1", {x, bias}), Tensor::Of<float>({2, 3}, {11, 22, 33, 14, 25, 36}));
}

TEST(BiasAddTest, SecondDimension) {
  const Tensor x = Tensor::Of<int32_t>({1, 2, 2}, {1, 2, 3, 4}), bias = Tensor::Vector<int32_t>({10, 20});
  ExpectTensor(Result("BiasAdd", {x, bias}, {{"data_format", "NCHW"}}),
               Tensor::Of<int32_t>({1, 2, 2}, {11, 12, 23, 24}));
}

TEST(BiasAddTest, HalfPrecision) {
  const Tensor x = Tensor::Of<Half>({1, 2}, {Half(1), Half(2)}), bias = Tensor::Vector<Half>({Half(0.5), Half(1)});
  ExpectTensor(Result("BiasAdd", {x, bias}), Tensor::Of<Half>({1, 2}, {Half(1.5), Half(3)}));
  ExpectTensor(Result("BiasAddGrad", {x}), Tensor::Vector<Half>({Half(1), Half(2)}));
}

TEST(BiasAddTest, GradSumsOverTheRest) {
  const Tensor dy = Tensor::Of<float>({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  ExpectTensor(Result("BiasAddGrad", {dy}), Tensor::Vector<float>({16, 20}));
  ExpectTensor(Result("BiasAddGrad", {dy}, {{"data_format", "NCHW"}}), Tensor::Vector<float>({14, 22}));
}

TEST(BiasAddTest, LargeSums) {
  const Tensor dy = TestValues(kFloat, {1000, 300});
  const Tensor sums = Result("BiasAddGrad", {dy});
  for (const int c : {0, 17, 299}) {
    double expected = 0;
    for (int r = 0; r < 1000; ++r) expected += dy.data<float>()[r * 300 + c];
    EXPECT_NEAR(sums.data<float>()[c], expected, 1e-3);
  }
  const Tensor planes = Result("BiasAddGrad", {dy.WithShape({10, 30, 1000})}, {{"data_format", "NCHW"}});
  double expected = 0;
  for (int o = 0; o < 10; ++o) {
    for (int i = 0; i < 1000; ++i) expected += dy.data<float>()[(o * 30 + 7) * 1000 + i];
  }
  EXPECT_NEAR(planes.data<float>()[7], expected, 1e-2);
}

TEST(BiasAddTest, Empty) {
  ExpectTensor(Result("BiasAdd", {Tensor(kFloat, {0, 2}), Tensor::Vector<float>({1, 2})}), Tensor(kFloat, {0, 2}));
  ExpectTensor(Result("BiasAddGrad", {Tensor(kFloat, {0, 2})}), Tensor::Zeros(kFloat, {2}));
}

TEST(BiasAddTest, BadInput) {
  const absl::Status status = RunOp("BiasAdd", {Tensor(kFloat, {2, 3}), Tensor(kFloat, {2})}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("3 and 2"));
  EXPECT_EQ(RunOp("BiasAdd", {Tensor(kFloat, {3}), Tensor(kFloat, {3})}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RunOp("BiasAdd", {Tensor(kFloat, {3, 3}), Tensor(kFloat, {3, 3})}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RunOp("BiasAddGrad", {Tensor(kFloat, {3})}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(BiasAddTest, Shapes) {
  EXPECT_EQ(*InferShape("BiasAdd", {{kFloat, {-1, -1}}, {kFloat, {10}}}), "[?,10]");
  EXPECT_EQ(*InferShape("BiasAddGrad", {{kFloat, {-1, 10}}}), "[10]");
  EXPECT_EQ(*InferShape("BiasAddGrad", {{kFloat, PartialShape()}}), "[?]");
}

TEST(BiasAddTest, Gradients) {
  for (const DataFormat format : {DataFormat::kChannelsLast, DataFormat::kChannelsFirst}) {
    ExpectGradient([&](const Scope& s,
                       const std::vector<Output>& in) { return BiasAdd(s, in[0], in[1], {.data_format = format}); },
                   {TestValues(kDouble, {2, 3, 3}), TestValues(kDouble, {3}, -1, 1, 2)});
    ExpectGradient(
        [&](const Scope& s, const std::vector<Output>& in) { return BiasAddGrad(s, in[0], {.data_format = format}); },
        {TestValues(kDouble, {2, 3, 2})});
  }
}

}  // namespace
}  // namespace thalweg
