// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/array_ops.h"

namespace thalweg {
namespace {

constexpr int64_t kBatch = 3, kInputs = 4, kUnits = 5;

std::vector<Tensor> Inputs() {
  return {TestValues(kFloat, {kBatch, kInputs}, -1, 1, 1),
          TestValues(kFloat, {kBatch, kUnits}, -1, 1, 2),
          TestValues(kFloat, {kInputs + kUnits, 2 * kUnits}, -1, 1, 3),
          TestValues(kFloat, {kInputs + kUnits, kUnits}, -1, 1, 4),
          TestValues(kFloat, {2 * kUnits}, -1, 1, 5),
          TestValues(kFloat, {kUnits}, -1, 1, 6)};
}

TEST(GruBlockCellTest, Values) {
  const std::vector<Tensor> in = Inputs();
  const auto y = RunOp("GRUBlockCell", {in.begin(), in.end()});
  ASSERT_TRUE(y.ok()) << y.status();
  const auto value = [&](int i, int64_t at) { return static_cast<double>(in[i].data<float>()[at]); };
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  Tensor h = Tensor::Zeros(kFloat, {kBatch, kUnits});
  for (int64_t b = 0; b < kBatch; ++b) {
    double r[kUnits], u[kUnits];
    for (int64_t k = 0; k < 2 * kUnits; ++k) {
      double sum = value(4, k);
      for (int64_t d = 0; d < kInputs; ++d) sum += value(0, b * kInputs + d) * value(2, d * 2 * kUnits + k);
      for (int64_t d = 0; d < kUnits; ++d) sum += value(1, b * kUnits + d) * value(2, (kInputs + d) * 2 * kUnits + k);
      (k < kUnits ? r[k] : u[k - kUnits]) = sigmoid(sum);
    }
    for (int64_t k = 0; k < kUnits; ++k) {
      double sum = value(5, k);
      for (int64_t d = 0; d < kInputs; ++d) sum += value(0, b * kInputs + d) * value(3, d * kUnits + k);
      for (int64_t d = 0; d < kUnits; ++d)
        sum += r[d] * value(1, b * kUnits + d) * value(3, (kInputs + d) * kUnits + k);
      h.mutable_data<float>()[b * kUnits + k] =
          static_cast<float>(u[k] * value(1, b * kUnits + k) + (1 - u[k]) * std::tanh(sum));
    }
  }
  ExpectTensor((*y)[3], h);
}

TEST(GruBlockCellTest, Gradient) {
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        Node* const node = s.Add("GRUBlockCell", {x[0], x[1], x[2], x[3], x[4], x[5]});
        return node == nullptr ? Output() : node->out(3);
      },
      Inputs(), 1e-2);
}

TEST(GruBlockCellTest, BadInput) {
  for (int i = 0; i < 6; ++i) {
    std::vector<Tensor> in = Inputs();
    in[i] = TestValues(kFloat, {kBatch, kInputs + 7});
    EXPECT_FALSE(RunOp("GRUBlockCell", {in.begin(), in.end()}).ok()) << i;
  }
}

}  // namespace
}  // namespace thalweg
