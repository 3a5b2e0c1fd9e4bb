// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/math_ops.h"

namespace thalweg {
namespace {

TEST(CrossTest, Values) {
  const auto cross = [](const Tensor& a, const Tensor& b) { return (*RunOp("Cross", {a, b}))[0]; };
  ExpectTensor(cross(Tensor::Of<float>({2, 3}, {1, 0, 0, 1, 2, 3}), Tensor::Of<float>({2, 3}, {0, 1, 0, 4, 5, 6})),
               Tensor::Of<float>({2, 3}, {0, 0, 1, -3, 6, -3}));
  ExpectTensor(cross(Tensor::Vector<uint8_t>({1, 2, 3}), Tensor::Vector<uint8_t>({4, 5, 6})),
               Tensor::Vector<uint8_t>({253, 6, 253}));
}

TEST(CrossTest, Gradient) {
  ExpectGradient([](const Scope& s, const std::vector<Output>& x) { return Cross(s, x[0], x[1]); },
                 {TestValues(kDouble, {4, 3}), TestValues(kDouble, {4, 3}, -1, 1, 2)});
}

TEST(CrossTest, BadInput) {
  EXPECT_FALSE(RunOp("Cross", {TestValues(kFloat, {3}), TestValues(kFloat, {2, 3})}).ok());
  EXPECT_FALSE(RunOp("Cross", {TestValues(kFloat, {4}), TestValues(kFloat, {4})}).ok());
  EXPECT_FALSE(RunOp("Cross", {Tensor::Scalar<float>(1), Tensor::Scalar<float>(1)}).ok());
}

}  // namespace
}  // namespace thalweg
