// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(ComparisonTest, Orders) {
  const Tensor x = Tensor::Vector<int64_t>({1, 2, 3}), y = Tensor::Scalar<int64_t>(2);
  ExpectTensor(BinaryResult("Less", x, y), Tensor::Vector<bool>({true, false, false}));
  ExpectTensor(BinaryResult("LessEqual", x, y), Tensor::Vector<bool>({true, true, false}));
  ExpectTensor(BinaryResult("Greater", x, y), Tensor::Vector<bool>({false, false, true}));
  ExpectTensor(BinaryResult("GreaterEqual", x, y), Tensor::Vector<bool>({false, true, true}));
  ExpectTensor(BinaryResult("Equal", x, y), Tensor::Vector<bool>({false, true, false}));
  ExpectTensor(BinaryResult("NotEqual", x, y), Tensor::Vector<bool>({true, false, true}));
}

TEST(ComparisonTest, NanIsUnequalToEverything) {
  const Tensor nan = Tensor::Scalar<float>(std::numeric_limits<float>::quiet_NaN());
  for (const char* op : {"Less", "LessEqual", "Greater", "GreaterEqual", "Equal"}) {
    ExpectTensor(BinaryResult(op, nan, nan), Tensor::Scalar<bool>(false));
  }
  ExpectTensor(BinaryResult("NotEqual", nan, nan), Tensor::Scalar<bool>(true));
}

TEST(ComparisonTest, EqualTakesEveryType) {
  ExpectTensor(BinaryResult("Equal", Tensor::Vector<std::string>({"a", "b"}), Tensor::Scalar<std::string>("b")),
               Tensor::Vector<bool>({false, true}));
  ExpectTensor(BinaryResult("NotEqual", Tensor::Vector<bool>({true, false}), Tensor::Scalar<bool>(true)),
               Tensor::Vector<bool>({false, true}));
  using C = std::complex<double>;
  ExpectTensor(BinaryResult("Equal", Tensor::Scalar<C>({1, 2}), Tensor::Vector<C>({{1, 2}, {2, 1}})),
               Tensor::Vector<bool>({true, false}));
  ExpectTensor(BinaryResult("Equal", Tensor::Vector<Half>({Half(1), Half(2)}), Tensor::Scalar<Half>(Half(2))),
               Tensor::Vector<bool>({false, true}));
  ExpectTensor(
      BinaryResult("Less", Tensor::Vector<BFloat16>({BFloat16(1), BFloat16(2)}), Tensor::Scalar<BFloat16>(BFloat16(2))),
      Tensor::Vector<bool>({true, false}));
}

TEST(ComparisonTest, LongRows) {
  const int64_t n = 100'000;
  const Tensor x = TestValues(kFloat, {n});
  const Tensor z = BinaryResult("Less", x, Tensor::Scalar<float>(0));
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(z.data<bool>()[i], x.data<float>()[i] < 0);
}

TEST(ComparisonTest, ShapesThatDoNotFit) {
  const Tensor x(kFloat, {2}), y(kFloat, {3});
  EXPECT_EQ(RunOp("Equal", {x, y}).status().code(), absl::StatusCode::kInvalidArgument);
  ExpectTensor(BinaryResult("Equal", x, y, {{"incompatible_shape_error", false}}), Tensor::Scalar<bool>(false));
  ExpectTensor(BinaryResult("NotEqual", x, y, {{"incompatible_shape_error", false}}), Tensor::Scalar<bool>(true));
  EXPECT_EQ(*InferShape("Equal", {{kFloat, {2}}, {kFloat, {3}}}, {{"incompatible_shape_error", false}}), "<unknown>");
  EXPECT_EQ(*InferShape("Equal", {{kFloat, {2}}, {kFloat, Shape()}}), "[2]");
}

TEST(ComparisonTest, ApproximateEqual) {
  const Tensor x = Tensor::Vector<float>({1, 2}), y = Tensor::Vector<float>({1.000001f, 2.1f});
  ExpectTensor(BinaryResult("ApproximateEqual", x, y), Tensor::Vector<bool>({true, false}));
  ExpectTensor(BinaryResult("ApproximateEqual", x, y, {{"tolerance", 0.2f}}), Tensor::Vector<bool>({true, true}));
  ExpectTensor(BinaryResult("ApproximateEqual", Tensor::Vector<uint8_t>({1, 2}), Tensor::Vector<uint8_t>({1, 3})),
               Tensor::Vector<bool>({true, false}));
  EXPECT_EQ(RunOp("ApproximateEqual", {x, Tensor(kFloat, {3})}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ComparisonTest, Logic) {
  const Tensor x = Tensor::Vector<bool>({false, true}), y = Tensor::Of<bool>({2, 1}, {false, true});
  ExpectTensor(BinaryResult("LogicalAnd", x, y), Tensor::Of<bool>({2, 2}, {false, false, false, true}));
  ExpectTensor(BinaryResult("LogicalOr", x, y), Tensor::Of<bool>({2, 2}, {false, true, true, true}));
}

}  // namespace
}  // namespace thalweg
