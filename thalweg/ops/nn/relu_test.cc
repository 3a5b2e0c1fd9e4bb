// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(ReluTest, Values) {
  const Tensor x = Tensor::Vector<float>({-2, 0, 3, 7, kNan});
  ExpectTensor(Result("Relu", {x}), Tensor::Vector<float>({0, 0, 3, 7, kNan}));
  ExpectTensor(Result("Relu6", {x}), Tensor::Vector<float>({0, 0, 3, 6, kNan}));
  ExpectTensor(Result("LeakyRelu", {x}), Tensor::Vector<float>({-0.4f, 0, 3, 7, kNan}));
  ExpectTensor(Result("LeakyRelu", {x}, {{"alpha", 0.5f}}), Tensor::Vector<float>({-1, 0, 3, 7, kNan}));
  ExpectTensor(Result("Elu", {x}), Tensor::Vector<float>({std::expm1(-2.0f), 0, 3, 7, kNan}));
  ExpectTensor(Result("Selu", {x}),
               Tensor::Vector<float>({1.7580993f * std::expm1(-2.0f), 0, 1.0507010f * 3, 1.0507010f * 7, kNan}));
  ExpectTensor(Result("Softplus", {x}),
               Tensor::Vector<float>({std::log1p(std::exp(-2.0f)), std::log(2.0f), std::log1p(std::exp(3.0f)),
                                      std::log1p(std::exp(7.0f)), kNan}));
  ExpectTensor(Result("Softsign", {x}), Tensor::Vector<float>({-2.0f / 3, 0, 0.75, 0.875, kNan}));
}

TEST(ReluTest, Extremes) {
  const Tensor x = Tensor::Vector<float>({-kInf, kInf, -1000, 1000});
  ExpectTensor(Result("Softplus", {x}), Tensor::Vector<float>({0, kInf, 0, 1000}));
  ExpectTensor(Result("Elu", {x}), Tensor::Vector<float>({-1, kInf, -1, 1000}));
}

TEST(ReluTest, OtherTypes) {
  ExpectTensor(Result("Relu", {Tensor::Vector<int32_t>({-1, 2})}), Tensor::Vector<int32_t>({0, 2}));
  ExpectTensor(Result("Relu6", {Tensor::Vector<uint8_t>({1, 200})}), Tensor::Vector<uint8_t>({1, 6}));
  ExpectTensor(Result("Relu", {Tensor::Vector<BFloat16>({BFloat16(-1), BFloat16(2)})}),
               Tensor::Vector<BFloat16>({BFloat16(0), BFloat16(2)}));
  ExpectTensor(Result("LeakyRelu", {Tensor::Vector<Half>({Half(-1), Half(2)})}, {{"alpha", 0.5f}}),
               Tensor::Vector<Half>({Half(-0.5), Half(2)}));
  ExpectTensor(Result("ReluGrad", {Tensor::Vector<int32_t>({5, 6}), Tensor::Vector<int32_t>({-1, 2})}),
               Tensor::Vector<int32_t>({0, 6}));
}

TEST(ReluTest, Grads) {
  const Tensor dy = Tensor::Vector<float>({1, 2, 3, 4}), x = Tensor::Vector<float>({-1, 0, 3, 7});
  ExpectTensor(Result("ReluGrad", {dy, x}), Tensor::Vector<float>({0, 0, 3, 4}));
  ExpectTensor(Result("Relu6Grad", {dy, x}), Tensor::Vector<float>({0, 0, 3, 0}));
  ExpectTensor(Result("LeakyReluGrad", {dy, x}, {{"alpha", 0.5f}}), Tensor::Vector<float>({0.5, 1, 3, 4}));
  ExpectTensor(Result("EluGrad", {dy, Tensor::Vector<float>({-0.5, 0, 3, 7})}), Tensor::Vector<float>({0.5, 2, 3, 4}));
}

TEST(ReluTest, GradsWantEqualShapes) {
  for (const char* op :
       {"ReluGrad", "Relu6Grad", "EluGrad", "SeluGrad", "SoftplusGrad", "SoftsignGrad", "LeakyReluGrad"}) {
    EXPECT_EQ(RunOp(op, {Tensor(kFloat, {2}), Tensor(kFloat, {3})}).status().code(), absl::StatusCode::kInvalidArgument)
        << op;
  }
}

TEST(ReluTest, Gradients) {
  const Tensor x = TestValues(kDouble, {3, 4}, -2, 2);
  for (const char* op : {"Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Softplus", "Softsign"}) {
    SCOPED_TRACE(op);
    ExpectGradient([&](const Scope& s, const std::vector<Output>& in) { return Output(s.Add(op, {in[0]})); }, {x});
  }
  const Tensor dy = TestValues(kDouble, {3, 4}, -1, 1, 9);
  for (const char* op : {"ReluGrad", "Relu6Grad", "LeakyReluGrad", "EluGrad", "SeluGrad", "SoftplusGrad"}) {
    SCOPED_TRACE(op);
    ExpectGradient(
        [&](const Scope& s, const std::vector<Output>& in) {
          return Output(s.Add(op, {in[0], in[1]}));
        },
        {dy, x});
  }
}

}  // namespace
}  // namespace thalweg
