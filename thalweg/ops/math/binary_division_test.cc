// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

TEST(BinaryDivisionTest, Integers) {
  const Tensor x = Tensor::Vector<int32_t>({7, -7, 7, -7}), y = Tensor::Vector<int32_t>({2, 2, -2, -2});
  ExpectTensor(BinaryResult("Div", x, y), Tensor::Vector<int32_t>({3, -3, -3, 3}));
  ExpectTensor(BinaryResult("TruncateDiv", x, y), Tensor::Vector<int32_t>({3, -3, -3, 3}));
  ExpectTensor(BinaryResult("FloorDiv", x, y), Tensor::Vector<int32_t>({3, -4, -4, 3}));
  ExpectTensor(BinaryResult("FloorMod", x, y), Tensor::Vector<int32_t>({1, 1, -1, -1}));
  ExpectTensor(BinaryResult("Mod", x, y), Tensor::Vector<int32_t>({1, -1, 1, -1}));
  ExpectTensor(BinaryResult("TruncateMod", x, y), Tensor::Vector<int32_t>({1, -1, 1, -1}));
  ExpectTensor(BinaryResult("FloorDiv", Tensor::Vector<uint8_t>({255}), Tensor::Vector<uint8_t>({2})),
               Tensor::Vector<uint8_t>({127}));
  ExpectTensor(BinaryResult("FloorMod", Tensor::Vector<int8_t>({-128}), Tensor::Vector<int8_t>({3})),
               Tensor::Vector<int8_t>({1}));
}

TEST(BinaryDivisionTest, Floats) {
  const Tensor x = Tensor::Vector<float>({7, -7, 7, -7}), y = Tensor::Vector<float>({2, 2, -2, -2});
  ExpectTensor(BinaryResult("RealDiv", x, y), Tensor::Vector<float>({3.5, -3.5, -3.5, 3.5}));
  ExpectTensor(BinaryResult("Div", x, y), Tensor::Vector<float>({3.5, -3.5, -3.5, 3.5}));
  ExpectTensor(BinaryResult("FloorDiv", x, y), Tensor::Vector<float>({3, -4, -4, 3}));
  ExpectTensor(BinaryResult("TruncateDiv", x, y), Tensor::Vector<float>({3, -3, -3, 3}));
  ExpectTensor(BinaryResult("FloorMod", x, y), Tensor::Vector<float>({1, 1, -1, -1}));
  ExpectTensor(BinaryResult("Mod", x, y), Tensor::Vector<float>({1, -1, 1, -1}));
  ExpectTensor(BinaryResult("DivNoNan", x, Tensor::Vector<float>({0, 2, 0, 7})),
               Tensor::Vector<float>({0, -3.5, 0, -1}));
  ExpectTensor(BinaryResult("RealDiv", Tensor::Vector<Half>({Half(1)}), Tensor::Vector<Half>({Half(2)})),
               Tensor::Vector<Half>({Half(0.5)}));
  using C = std::complex<float>;
  ExpectTensor(BinaryResult("RealDiv", Tensor::Scalar<C>({-5, 10}), Tensor::Scalar<C>({3, 4})),
               Tensor::Scalar<C>({1, 2}));
}

TEST(BinaryDivisionTest, IntegerDivisionByZero) {
  const auto status = [](const char* op) {
    return RunOp(op, {Tensor::Vector<int32_t>({1, 2}), Tensor::Vector<int32_t>({1, 0})}).status();
  };
  for (const char* op : {"Div", "RealDiv", "FloorDiv", "FloorMod", "Mod"}) {
    EXPECT_EQ(status(op).code(), absl::StatusCode::kInvalidArgument) << op;
    EXPECT_THAT(status(op).message(), HasSubstr("Integer division by zero")) << op;
  }
  // TensorFlow takes these for ops that cannot fail.
  for (const char* op : {"TruncateDiv", "TruncateMod"}) {
    EXPECT_EQ(status(op).code(), absl::StatusCode::kInternal) << op;
  }
  EXPECT_FALSE(RunOp("FloorDiv", {Tensor::Of<int64_t>({2, 1}, {1, 2}), Tensor::Of<int64_t>({1, 2}, {1, 0})}).ok());
}

TEST(BinaryDivisionTest, TheQuotientThatOverflows) {
  const int32_t min = std::numeric_limits<int32_t>::min();
  for (const char* op : {"Div", "TruncateDiv", "FloorDiv"}) {
    ExpectTensor(BinaryResult(op, Tensor::Scalar<int32_t>(min), Tensor::Scalar<int32_t>(-1)),
                 Tensor::Scalar<int32_t>(min));
  }
  for (const char* op : {"Mod", "FloorMod", "TruncateMod"}) {
    ExpectTensor(
        BinaryResult(op, Tensor::Scalar<int64_t>(std::numeric_limits<int64_t>::min()), Tensor::Scalar<int64_t>(-1)),
        Tensor::Scalar<int64_t>(0));
  }
}

TEST(BinaryDivisionTest, Gradients) {
  const Tensor x = TestValues(kDouble, {2, 3}, 1, 2), y = TestValues(kDouble, {3}, 1, 2, 3);
  for (const char* op : {"Div", "RealDiv", "DivNoNan", "FloorMod"}) {
    SCOPED_TRACE(op);
    const auto build = [&](const Scope& s, const std::vector<Output>& in) { return Output(s.Add(op, {in[0], in[1]})); };
    ExpectGradient(build, {x, y});
    ExpectGradient(build, {y, x});
  }
}

}  // namespace
}  // namespace thalweg
