// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

TEST(SoftmaxTest, Values) {
  const Tensor x = Tensor::Of<float>({2, 2}, {0, std::log(3.0f), 1000, 1000});
  ExpectTensor(Result("Softmax", {x}), Tensor::Of<float>({2, 2}, {0.25, 0.75, 0.5, 0.5}));
  ExpectTensor(Result("LogSoftmax", {x}),
               Tensor::Of<float>({2, 2}, {std::log(0.25f), std::log(0.75f), std::log(0.5f), std::log(0.5f)}));
}

TEST(SoftmaxTest, AnyRankAndLength) {
  for (const int64_t classes : {1, 3, 10, 17, 100, 3000}) {
    const Tensor x = TestValues(kFloat, {7, 5, classes}, -3, 3), y = Result("Softmax", {x}),
                 l = Result("LogSoftmax", {x});
    for (int64_t r = 0; r < 35; ++r) {
      double total = 0, sum = 0;
      for (int64_t i = 0; i < classes; ++i) total += std::exp(static_cast<double>(x.data<float>()[r * classes + i]));
      for (int64_t i = 0; i < classes; ++i) {
        const double expected = std::exp(static_cast<double>(x.data<float>()[r * classes + i])) / total;
        ASSERT_NEAR(y.data<float>()[r * classes + i], expected, 1e-5 * expected);
        ASSERT_NEAR(l.data<float>()[r * classes + i], std::log(expected), 1e-5);
        sum += y.data<float>()[r * classes + i];
      }
      ASSERT_NEAR(sum, 1, 1e-5);
    }
  }
}

TEST(SoftmaxTest, OtherTypes) {
  ExpectTensor(Result("Softmax", {Tensor::Vector<double>({0, std::log(3.0)})}), Tensor::Vector<double>({0.25, 0.75}),
               1e-14);
  ExpectTensor(Result("Softmax", {Tensor::Vector<Half>({Half(0), Half(0)})}),
               Tensor::Vector<Half>({Half(0.5), Half(0.5)}));
}

TEST(SoftmaxTest, EmptyAndScalar) {
  ExpectTensor(Result("Softmax", {Tensor(kFloat, {0, 3})}), Tensor(kFloat, {0, 3}));
  ExpectTensor(Result("Softmax", {Tensor(kFloat, {3, 0})}), Tensor(kFloat, {3, 0}));
  EXPECT_EQ(RunOp("Softmax", {Tensor::Scalar<float>(1)}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SoftmaxTest, Gradients) {
  const Tensor x = TestValues(kDouble, {2, 3});
  ExpectGradient([](const Scope& s, const std::vector<Output>& in) { return Softmax(s, in[0]); }, {x});
  ExpectGradient([](const Scope& s, const std::vector<Output>& in) { return LogSoftmax(s, in[0]); }, {x});
}

TEST(CrossEntropyTest, Dense) {
  const Tensor x = Tensor::Of<float>({2, 2}, {0, std::log(3.0f), 1, 1}),
               p = Tensor::Of<float>({2, 2}, {1, 0, 0.5, 0.5});
  absl::StatusOr<std::vector<Tensor>> y = RunOp("SoftmaxCrossEntropyWithLogits", {x, p});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectTensor((*y)[0], Tensor::Vector<float>({std::log(4.0f), std::log(2.0f)}));
  ExpectTensor((*y)[1], Tensor::Of<float>({2, 2}, {-0.75, 0.75, 0, 0}));
}

TEST(CrossEntropyTest, DenseBroadcasts) {
  const Tensor x = Tensor::Of<float>({2, 2}, {0, std::log(3.0f), 0, 0}), p = Tensor::Of<float>({1, 2}, {1, 0});
  absl::StatusOr<std::vector<Tensor>> y = RunOp("SoftmaxCrossEntropyWithLogits", {x, p});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectTensor((*y)[0], Tensor::Vector<float>({std::log(4.0f), std::log(2.0f)}));
  ExpectTensor((*y)[1], Tensor::Of<float>({2, 2}, {-0.75, 0.75, -0.5, 0.5}));
}

TEST(CrossEntropyTest, DenseBadInput) {
  EXPECT_EQ(RunOp("SoftmaxCrossEntropyWithLogits", {Tensor(kFloat, {2, 3}), Tensor(kFloat, {3, 3})}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RunOp("SoftmaxCrossEntropyWithLogits", {Tensor(kFloat, {3}), Tensor(kFloat, {3})}).status().code(),
            absl::StatusCode::kInvalidArgument);
  absl::StatusOr<std::vector<Tensor>> y =
      RunOp("SoftmaxCrossEntropyWithLogits", {Tensor(kFloat, {2, 0}), Tensor(kFloat, {2, 0})});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectTensor((*y)[0], Tensor::Zeros(kFloat, {2}));
}

TEST(CrossEntropyTest, Sparse) {
  const Tensor x = Tensor::Of<float>({2, 2}, {0, std::log(3.0f), 1, 1});
  for (const Tensor& labels : {Tensor::Vector<int32_t>({0, 1}), Tensor::Vector<int64_t>({0, 1})}) {
    absl::StatusOr<std::vector<Tensor>> y = RunOp("SparseSoftmaxCrossEntropyWithLogits", {x, labels});
    ASSERT_TRUE(y.ok()) << y.status();
    ExpectTensor((*y)[0], Tensor::Vector<float>({std::log(4.0f), std::log(2.0f)}));
    ExpectTensor((*y)[1], Tensor::Of<float>({2, 2}, {-0.75, 0.75, 0.5, -0.5}));
  }
}

TEST(CrossEntropyTest, ManyRowsAndHalfPrecision) {
  const Tensor x = TestValues(kFloat, {3000, 10}, -2, 2);
  Tensor labels(kInt64, {3000});
  for (int64_t i = 0; i < 3000; ++i) labels.flat<int64_t>()[i] = i % 10;
  absl::StatusOr<std::vector<Tensor>> y = RunOp("SparseSoftmaxCrossEntropyWithLogits", {x, labels});
  ASSERT_TRUE(y.ok()) << y.status();
  const Tensor l = Result("LogSoftmax", {x});
  for (int64_t i = 0; i < 3000; ++i) {
    ASSERT_NEAR((*y)[0].data<float>()[i], -l.data<float>()[i * 10 + i % 10], 1e-5);
  }
  absl::StatusOr<std::vector<Tensor>> half =
      RunOp("SparseSoftmaxCrossEntropyWithLogits",
            {Tensor::Of<BFloat16>({1, 2}, {BFloat16(0), BFloat16(0)}), Tensor::Vector<int32_t>({1})});
  ASSERT_TRUE(half.ok()) << half.status();
  ExpectTensor((*half)[1], Tensor::Of<BFloat16>({1, 2}, {BFloat16(0.5), BFloat16(-0.5)}));
}

TEST(CrossEntropyTest, SparseBadInput) {
  const Tensor x = Tensor::Zeros(kFloat, {2, 3});
  for (const int32_t label : {3, -1}) {
    const absl::Status status =
        RunOp("SparseSoftmaxCrossEntropyWithLogits", {x, Tensor::Vector<int32_t>({0, label})}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(),
                HasSubstr(absl::StrCat("Received a label value of ", label,
                                       " which is outside the valid range of [0, 3).  Label values: 0 ", label)));
  }
  EXPECT_EQ(RunOp("SparseSoftmaxCrossEntropyWithLogits", {x, Tensor::Vector<int32_t>({0})}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RunOp("SparseSoftmaxCrossEntropyWithLogits", {Tensor(kFloat, {2, 0}), Tensor::Vector<int32_t>({0, 0})})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RunOp("SparseSoftmaxCrossEntropyWithLogits", {x, Tensor::Zeros(kInt32, {2, 1})}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CrossEntropyTest, Shapes) {
  EXPECT_EQ(*InferShape("SparseSoftmaxCrossEntropyWithLogits", {{kFloat, {-1, 10}}, {kInt64, {32}}}), "[32]");
  EXPECT_EQ(*InferShape("SoftmaxCrossEntropyWithLogits", {{kFloat, {-1, 10}}, {kFloat, {-1, 10}}}), "[?]");
}

TEST(CrossEntropyTest, Gradients) {
  const Tensor x = TestValues(kDouble, {3, 4}), p = TestValues(kDouble, {3, 4}, 0.1, 0.4, 4);
  // The labels' gradient treats the rows as distributions, so only the
  // features' can be compared with differences.
  ExpectGradient(
      [&](const Scope& s, const std::vector<Output>& in) {
        const Output labels = s.Add("Const", {}, {{"dtype", kDouble}, {"value", p}});
        return SoftmaxCrossEntropyWithLogits(s, in[0], Softmax(s, labels)).loss;
      },
      {x});
  ExpectGradient(
      [&](const Scope& s, const std::vector<Output>& in) {
        return SparseSoftmaxCrossEntropyWithLogits(s, in[0], in[1]).loss;
      },
      {x, Tensor::Vector<int64_t>({0, 3, 1})});
  ExpectGradient(
      [&](const Scope& s, const std::vector<Output>& in) {
        return SparseSoftmaxCrossEntropyWithLogits(s, in[0], in[1]).backprop;
      },
      {x, Tensor::Vector<int64_t>({0, 3, 1})});
}

}  // namespace
}  // namespace thalweg
