// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "thalweg/kernel/evaluate.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

Tensor CumulativeResult(absl::string_view op, const Tensor& x, int axis, bool exclusive = false, bool reverse = false) {
  absl::StatusOr<std::vector<Tensor>> y =
      RunOp(op, {x, Tensor::Scalar<int32_t>(axis)}, {{"exclusive", exclusive}, {"reverse", reverse}});
  EXPECT_TRUE(y.ok()) << op << ": " << y.status();
  return y.ok() ? (*y)[0] : Tensor();
}

TEST(CumulativeTest, Values) {
  const Tensor x = Tensor::Vector<float>({2, 3, 4});
  ExpectTensor(CumulativeResult("Cumsum", x, 0), Tensor::Vector<float>({2, 5, 9}));
  ExpectTensor(CumulativeResult("Cumsum", x, 0, true), Tensor::Vector<float>({0, 2, 5}));
  ExpectTensor(CumulativeResult("Cumsum", x, 0, false, true), Tensor::Vector<float>({9, 7, 4}));
  ExpectTensor(CumulativeResult("Cumsum", x, 0, true, true), Tensor::Vector<float>({7, 4, 0}));
  ExpectTensor(CumulativeResult("Cumprod", x, -1), Tensor::Vector<float>({2, 6, 24}));
  ExpectTensor(CumulativeResult("Cumprod", x, 0, true, true), Tensor::Vector<float>({12, 4, 1}));
  ExpectTensor(CumulativeResult("CumulativeLogsumexp", x, 0),
               Tensor::Vector<float>({2, std::log(std::exp(2.0f) + std::exp(3.0f)),
                                      std::log(std::exp(2.0f) + std::exp(3.0f) + std::exp(4.0f))}));
}

TEST(CumulativeTest, AxesTypesAndEmpty) {
  const Tensor x = Tensor::Of<int32_t>({2, 2}, {1, 2, 3, 4});
  ExpectTensor(CumulativeResult("Cumsum", x, 0), Tensor::Of<int32_t>({2, 2}, {1, 2, 4, 6}));
  ExpectTensor(CumulativeResult("Cumsum", x, 1), Tensor::Of<int32_t>({2, 2}, {1, 3, 3, 7}));
  ExpectTensor(CumulativeResult("Cumsum", Tensor::Vector<Half>({Half(1), Half(2)}), 0),
               Tensor::Vector<Half>({Half(1), Half(3)}));
  ExpectTensor(CumulativeResult("Cumsum", Tensor(kFloat, {0, 2}), 0), Tensor(kFloat, {0, 2}));
}

TEST(CumulativeTest, AnAxisMayBeANumber) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Const(s, {{1.f, 2.f}, {3.f, 4.f}});
  const auto y = Evaluate(graph, {}, {Cumsum(s, x, 0), Cumprod(s, x, -1, {.reverse = true})}, TestDevice());
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectTensor((*y)[0], Tensor::Of<float>({2, 2}, {1, 2, 4, 6}));
  ExpectTensor((*y)[1], Tensor::Of<float>({2, 2}, {2, 2, 12, 4}));
}

TEST(CumulativeTest, BadAxis) {
  const Tensor x(kFloat, {2});
  EXPECT_THAT(RunOp("Cumsum", {x, Tensor::Scalar<int32_t>(3)}).status().message(),
              HasSubstr("ScanOp: Expected scan axis in the range [-1, 1), but got 3"));
  EXPECT_THAT(RunOp("Cumsum", {x, Tensor::Vector<int32_t>({0})}).status().message(),
              HasSubstr("axis must be a scalar, not [1]"));
  EXPECT_FALSE(RunOp("Cumsum", {Tensor::Scalar<float>(1), Tensor::Scalar<int32_t>(0)}).ok());
}

TEST(CumulativeTest, Gradients) {
  for (const char* op : {"Cumsum", "Cumprod", "CumulativeLogsumexp"}) {
    for (const bool exclusive : {false, true}) {
      for (const bool reverse : {false, true}) {
        // An exclusive logarithm of a sum of nothing has no slope.
        if (exclusive && std::string(op) == "CumulativeLogsumexp") continue;
        ExpectGradient(
            [&](const Scope& s, const std::vector<Output>& in) {
              return Output(s.Add(op, {in[0], in[1]}, {{"exclusive", exclusive}, {"reverse", reverse}}));
            },
            {TestValues(kDouble, {3, 2}, 0.5, 1.5), Tensor::Scalar<int32_t>(0)});
      }
    }
  }
}

TEST(L2LossTest, Values) {
  ExpectTensor((*RunOp("L2Loss", {Tensor::Of<float>({2, 2}, {1, 2, 3, 4})}))[0], Tensor::Scalar<float>(15));
  ExpectTensor((*RunOp("L2Loss", {Tensor::Vector<Half>({Half(1), Half(3)})}))[0], Tensor::Scalar<Half>(Half(5)));
  ExpectTensor((*RunOp("L2Loss", {Tensor(kFloat, {0})}))[0], Tensor::Scalar<float>(0));
  Tensor ones(kFloat, {1'000'001});
  for (float& v : ones.flat<float>()) v = 1;
  ExpectTensor((*RunOp("L2Loss", {ones}))[0], Tensor::Scalar<float>(500000.5f));
}

TEST(L2LossTest, Gradient) {
  ExpectGradient([](const Scope& s, const std::vector<Output>& in) { return L2Loss(s, in[0]); },
                 {TestValues(kDouble, {2, 3})});
}

}  // namespace
}  // namespace thalweg
