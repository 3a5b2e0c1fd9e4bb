// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

TEST(BinaryPowerTest, Powers) {
  ExpectTensor(BinaryResult("Pow", Tensor::Vector<float>({2, 3, -2}), Tensor::Vector<float>({3, 0.5, 2})),
               Tensor::Vector<float>({8, std::sqrt(3.0f), 4}));
  ExpectTensor(BinaryResult("Pow", Tensor::Vector<int32_t>({2, -3, 0, 7}), Tensor::Vector<int32_t>({10, 3, 0, 1})),
               Tensor::Vector<int32_t>({1024, -27, 1, 7}));
  ExpectTensor(BinaryResult("Pow", Tensor::Scalar<int8_t>(2), Tensor::Scalar<int8_t>(9)), Tensor::Scalar<int8_t>(0));
  ExpectTensor(BinaryResult("Pow", Tensor::Scalar<Half>(Half(2)), Tensor::Scalar<Half>(Half(3))),
               Tensor::Scalar<Half>(Half(8)));
  const absl::Status status = RunOp("Pow", {Tensor::Scalar<int32_t>(2), Tensor::Scalar<int32_t>(-1)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("Integers to negative integer powers are not allowed"));
}

TEST(BinaryPowerTest, ZerosWin) {
  const Tensor x = Tensor::Vector<float>({0, 0, 2}), y = Tensor::Vector<float>({0, -1, 4});
  ExpectTensor(BinaryResult("Xdivy", x, y), Tensor::Vector<float>({0, 0, 0.5}));
  ExpectTensor(BinaryResult("Xlogy", x, y), Tensor::Vector<float>({0, 0, 2 * std::log(4.0f)}));
  ExpectTensor(BinaryResult("Xlog1py", x, y), Tensor::Vector<float>({0, 0, 2 * std::log(5.0f)}));
}

// 75 log(10) is 172.69, which would be rounded to 173.
TEST(BinaryPowerTest, LogarithmsOfHalfPrecisionAreRoundedBeforeTheProduct) {
  const auto scalar = [](float x) { return Tensor::Scalar(BFloat16(x)); };
  ExpectTensor(BinaryResult("Xlogy", scalar(75), scalar(10)), scalar(172), 0);
  ExpectTensor(BinaryResult("Xlog1py", scalar(75), scalar(9)), scalar(172), 0);
}

TEST(BinaryPowerTest, Others) {
  ExpectTensor(BinaryResult("Atan2", Tensor::Vector<float>({1, -1}), Tensor::Vector<float>({-1, -1})),
               Tensor::Vector<float>({std::atan2(1.0f, -1.0f), std::atan2(-1.0f, -1.0f)}));
  ExpectTensor(BinaryResult("NextAfter", Tensor::Scalar<float>(1), Tensor::Scalar<float>(2)),
               Tensor::Scalar<float>(1 + std::numeric_limits<float>::epsilon()), 0);
}

TEST(BinaryPowerTest, Gradients) {
  const Tensor x = TestValues(kDouble, {2, 3}, 0.5, 2), y = TestValues(kDouble, {3}, 0.5, 2, 3);
  for (const char* op : {"Pow", "Atan2", "Xdivy", "Xlogy", "Xlog1py"}) {
    SCOPED_TRACE(op);
    const auto build = [&](const Scope& s, const std::vector<Output>& in) { return Output(s.Add(op, {in[0], in[1]})); };
    ExpectGradient(build, {x, y});
    ExpectGradient(build, {y, x});
  }
}

TEST(BitwiseTest, Bits) {
  const Tensor x = Tensor::Vector<uint8_t>({12, 10}), y = Tensor::Scalar<uint8_t>(6);
  ExpectTensor(BinaryResult("BitwiseAnd", x, y), Tensor::Vector<uint8_t>({4, 2}));
  ExpectTensor(BinaryResult("BitwiseOr", x, y), Tensor::Vector<uint8_t>({14, 14}));
  ExpectTensor(BinaryResult("BitwiseXor", x, y), Tensor::Vector<uint8_t>({10, 12}));
}

TEST(BitwiseTest, Shifts) {
  ExpectTensor(
      BinaryResult("LeftShift", Tensor::Vector<int32_t>({1, -1, 1, 1}), Tensor::Vector<int32_t>({4, 1, 100, -3})),
      Tensor::Vector<int32_t>({16, -2, std::numeric_limits<int32_t>::min(), 1}));
  ExpectTensor(
      BinaryResult("RightShift", Tensor::Vector<int8_t>({-128, -128, 64}), Tensor::Vector<int8_t>({1, 100, 2})),
      Tensor::Vector<int8_t>({-64, -1, 16}));
  ExpectTensor(BinaryResult("RightShift", Tensor::Vector<uint64_t>({~uint64_t{0}}), Tensor::Vector<uint64_t>({63})),
               Tensor::Vector<uint64_t>({1}));
}

}  // namespace
}  // namespace thalweg
