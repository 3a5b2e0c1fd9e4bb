// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/array_ops.h"

namespace thalweg {
namespace {

const Tensor kPlaces = Tensor::Of<int64_t>({3, 2}, {0, 0, 0, 1, 1, 0});
const Tensor kLabels = Tensor::Vector<int32_t>({0, 0, 1});
const Tensor kLengths = Tensor::Vector<int32_t>({5, 4});

TEST(CtcTest, Gradient) {
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& v) {
        return Output(s.Add("CTCLoss", {v[0], Const(s, kPlaces), Const(s, kLabels), Const(s, kLengths)}));
      },
      {TestValues(kDouble, {5, 2, 3})});
  const Tensor labels = Tensor::Vector<int32_t>({1, 1, 2});
  ExpectGradient(
      [&](const Scope& s, const std::vector<Output>& v) {
        return Output(s.Add("CTCLossV2", {v[0], Const(s, kPlaces), Const(s, labels), Const(s, kLengths)}));
      },
      {TestValues(kFloat, {5, 2, 3})}, 1e-2);
}

// CTCLossV2 is CTCLoss with the last class moved to the front.
TEST(CtcTest, BlankFirst) {
  const Tensor x = TestValues(kFloat, {5, 2, 3});
  Tensor turned = Tensor::Zeros(kFloat, {5, 2, 3});
  const auto turn = [](const Tensor& from, Tensor* to) {
    for (int64_t i = 0; i < from.num_elements(); ++i) {
      to->mutable_data<float>()[i / 3 * 3 + (i + 1) % 3] = from.data<float>()[i];
    }
  };
  turn(x, &turned);
  const Tensor labels = Tensor::Vector<int32_t>({1, 1, 2});
  const auto last = RunOp("CTCLoss", {x, kPlaces, kLabels, kLengths});
  const auto first = RunOp("CTCLossV2", {turned, kPlaces, labels, kLengths});
  ASSERT_TRUE(last.ok() && first.ok()) << last.status() << first.status();
  ExpectTensor((*first)[0], (*last)[0]);
  Tensor gradient = Tensor::Zeros(kFloat, {5, 2, 3});
  turn((*last)[1], &gradient);
  ExpectTensor((*first)[1], gradient);
  // Without labels there are blanks only.
  const Tensor none = Tensor::Zeros(kInt64, {0, 2}), no_labels = Tensor::Zeros(kInt32, {0});
  const auto blanks =
      RunOp("CTCLossV2", {Tensor::Zeros(kFloat, {2, 1, 3}), none, no_labels, Tensor::Vector<int32_t>({2})});
  ASSERT_TRUE(blanks.ok()) << blanks.status();
  ExpectTensor((*blanks)[0], Tensor::Vector<float>({2 * std::log(3.0f)}));
  for (const int32_t bad : {-1, 3}) {
    EXPECT_FALSE(RunOp("CTCLossV2", {x, kPlaces, Tensor::Vector<int32_t>({1, 1, bad}), kLengths}).ok());
  }
  EXPECT_FALSE(RunOp("CTCLossV2", {x, kPlaces, Tensor::Vector<int32_t>({0, 1, 2}), kLengths}).ok());
}

// The lattice is far larger than the inputs.
TEST(CtcTest, MoreThanFitsIntoMemory) {
  constexpr int64_t kTime = 1 << 20;
  Tensor places = Tensor::Zeros(kInt64, {kTime, 2});
  for (int64_t i = 0; i < kTime; ++i) places.mutable_data<int64_t>()[2 * i + 1] = i;
  const auto y = RunOp("CTCLoss", {Tensor::Zeros(kFloat, {kTime, 1, 2}), places, Tensor::Zeros(kInt32, {kTime}),
                                   Tensor::Vector<int32_t>({kTime})});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kResourceExhausted) << y.status();
}

TEST(CtcTest, GreedyDecoder) {
  const Tensor x = Tensor::Of<float>({3, 1, 3}, {5, 0, 0, 5, 0, 0, 0, 0, 5});
  const absl::StatusOr<std::vector<Tensor>> y =
      RunOp("CTCGreedyDecoder", {x, Tensor::Vector<int32_t>({3})}, {{"merge_repeated", true}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectTensor((*y)[1], Tensor::Vector<int64_t>({0}));
  ExpectTensor((*y)[3], Tensor::Of<float>({1, 1}, {-15}));
  EXPECT_FALSE(RunOp("CTCGreedyDecoder", {x, Tensor::Vector<int32_t>({4})}).ok());
  EXPECT_FALSE(RunOp("CTCGreedyDecoder", {x, Tensor::Vector<int32_t>({3})}, {{"blank_index", 3}}).ok());
}

TEST(CtcTest, BeamSearch) {
  // "0" may be 0 0, 0 - or - 0: likelier together than -, which is the likeliest of all paths.
  const float p = std::log(0.4f), q = std::log(0.6f);
  const Tensor x = Tensor::Of<float>({2, 1, 2}, {p, q, p, q});
  const auto decode = [&](int32_t length, int width, int paths) {
    return RunOp("CTCBeamSearchDecoder", {x, Tensor::Vector<int32_t>({length})},
                 {{"beam_width", width}, {"top_paths", paths}});
  };
  const absl::StatusOr<std::vector<Tensor>> y = decode(2, 4, 2);
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectTensor((*y)[2], Tensor::Vector<int64_t>({0}));
  EXPECT_EQ((*y)[3].num_elements(), 0);
  ExpectTensor((*y)[6], Tensor::Of<float>({1, 2}, {std::log(0.64f), std::log(0.36f)}));
  EXPECT_FALSE(decode(3, 4, 1).ok());
  EXPECT_FALSE(decode(2, 1, 2).ok());
  EXPECT_FALSE(decode(0, 4, 2).ok());
}

TEST(CtcTest, BadInput) {
  const Tensor x = TestValues(kFloat, {5, 2, 3});
  const auto ok = [&](const Tensor& places, const Tensor& labels, const Tensor& lengths) {
    return RunOp("CTCLoss", {x, places, labels, lengths}).ok();
  };
  EXPECT_TRUE(ok(kPlaces, kLabels, kLengths));
  EXPECT_FALSE(ok(kPlaces, kLabels, Tensor::Vector<int32_t>({6, 4})));
  EXPECT_FALSE(ok(kPlaces, kLabels, Tensor::Vector<int32_t>({5, -4})));
  EXPECT_FALSE(ok(kPlaces, kLabels, Tensor::Vector<int32_t>({1, 4})));
  EXPECT_FALSE(ok(kPlaces, Tensor::Vector<int32_t>({0, -1, 1}), kLengths));
  EXPECT_FALSE(ok(Tensor::Of<int64_t>({3, 2}, {0, 0, 0, 1, 2, 0}), kLabels, kLengths));
  EXPECT_FALSE(ok(Tensor::Of<int64_t>({3, 2}, {0, 0, 0, 1, 0, 2}), kLabels, kLengths));
  EXPECT_FALSE(ok(kPlaces, Tensor::Vector<int32_t>({0, 0}), kLengths));
}

}  // namespace
}  // namespace thalweg
