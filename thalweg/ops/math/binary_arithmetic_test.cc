// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

TEST(BinaryArithmeticTest, SameShape) {
  const Tensor x = Tensor::Of<float>({2, 2}, {1, 2, 3, 4}), y = Tensor::Of<float>({2, 2}, {10, 20, 30, 40});
  ExpectTensor(BinaryResult("Add", x, y), Tensor::Of<float>({2, 2}, {11, 22, 33, 44}));
  ExpectTensor(BinaryResult("AddV2", x, y), Tensor::Of<float>({2, 2}, {11, 22, 33, 44}));
  ExpectTensor(BinaryResult("Sub", x, y), Tensor::Of<float>({2, 2}, {-9, -18, -27, -36}));
  ExpectTensor(BinaryResult("Mul", x, y), Tensor::Of<float>({2, 2}, {10, 40, 90, 160}));
  ExpectTensor(BinaryResult("SquaredDifference", x, y), Tensor::Of<float>({2, 2}, {81, 324, 729, 1296}));
}

TEST(BinaryArithmeticTest, BroadcastsScalarsRowsColumnsAndMiddles) {
  const Tensor x = Tensor::Of<int32_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  ExpectTensor(BinaryResult("AddV2", x, Tensor::Scalar<int32_t>(10)),
               Tensor::Of<int32_t>({2, 3}, {11, 12, 13, 14, 15, 16}));
  ExpectTensor(BinaryResult("Sub", Tensor::Scalar<int32_t>(10), x), Tensor::Of<int32_t>({2, 3}, {9, 8, 7, 6, 5, 4}));
  ExpectTensor(BinaryResult("Mul", x, Tensor::Vector<int32_t>({1, 10, 100})),
               Tensor::Of<int32_t>({2, 3}, {1, 20, 300, 4, 50, 600}));
  ExpectTensor(BinaryResult("Sub", Tensor::Vector<int32_t>({1, 10, 100}), x),
               Tensor::Of<int32_t>({2, 3}, {0, 8, 97, -3, 5, 94}));
  ExpectTensor(BinaryResult("AddV2", x, Tensor::Of<int32_t>({2, 1}, {10, 20})),
               Tensor::Of<int32_t>({2, 3}, {11, 12, 13, 24, 25, 26}));
  ExpectTensor(BinaryResult("AddV2", Tensor::Of<int32_t>({2, 1}, {10, 20}), Tensor::Of<int32_t>({1, 2}, {1, 2})),
               Tensor::Of<int32_t>({2, 2}, {11, 12, 21, 22}));
  // One repeated dimension between two that are not, against the opposite.
  ExpectTensor(
      BinaryResult("AddV2", Tensor::Of<int32_t>({2, 1, 2}, {1, 2, 3, 4}), Tensor::Of<int32_t>({1, 2, 1}, {10, 20})),
      Tensor::Of<int32_t>({2, 2, 2}, {11, 12, 21, 22, 13, 14, 23, 24}));
  ExpectTensor(BinaryResult("Sub", Tensor::Of<int32_t>({1, 1, 2, 1, 2}, {1, 2, 3, 4}),
                            Tensor::Of<int32_t>({2, 1, 1, 1}, {10, 20})),
               Tensor::Of<int32_t>({1, 2, 2, 1, 2}, {-9, -8, -7, -6, -19, -18, -17, -16}));
}

TEST(BinaryArithmeticTest, BroadcastOfScalarsKeepsTheLargerRank) {
  ExpectTensor(BinaryResult("AddV2", Tensor::Vector<float>({1}), Tensor::Of<float>({1, 1}, {2})),
               Tensor::Of<float>({1, 1}, {3}));
  ExpectTensor(BinaryResult("AddV2", Tensor::Of<float>({1, 1, 1}, {1}), Tensor::Vector<float>({2, 3})),
               Tensor::Of<float>({1, 1, 2}, {3, 4}));
}

TEST(BinaryArithmeticTest, LargeTensorsAreSharedBetweenThreads) {
  const int64_t n = 300'000;
  const Tensor x = TestValues(kFloat, {n}), y = TestValues(kFloat, {n}, -1, 1, 2);
  const Tensor z = BinaryResult("Mul", x, y);
  for (int64_t i = 0; i < n; i += 991) ASSERT_EQ(z.data<float>()[i], x.data<float>()[i] * y.data<float>()[i]);
  const Tensor matrix = x.WithShape({1000, 300}), row = TestValues(kFloat, {300});
  const Tensor sum = BinaryResult("AddV2", matrix, row);
  for (int64_t i = 0; i < n; i += 991) ASSERT_EQ(sum.data<float>()[i], x.data<float>()[i] + row.data<float>()[i % 300]);
}

TEST(BinaryArithmeticTest, EmptyTensors) {
  ExpectTensor(BinaryResult("AddV2", Tensor(kFloat, {0, 3}), Tensor::Vector<float>({1, 2, 3})), Tensor(kFloat, {0, 3}));
  ExpectTensor(BinaryResult("Mul", Tensor(kFloat, {0}), Tensor::Scalar<float>(1)), Tensor(kFloat, {0}));
  ExpectTensor(BinaryResult("Mul", Tensor(kFloat, {0, 1}), Tensor(kFloat, {1, 0})), Tensor(kFloat, {0, 0}));
}

TEST(BinaryArithmeticTest, EveryType) {
  const auto check = [&]<typename T>() {
    ExpectTensor(BinaryResult("AddV2", Tensor::Vector<T>({T(3), T(4)}), Tensor::Vector<T>({T(1), T(2)})),
                 Tensor::Vector<T>({T(4), T(6)}));
    ExpectTensor(BinaryResult("Sub", Tensor::Vector<T>({T(3), T(4)}), Tensor::Scalar<T>(T(2))),
                 Tensor::Vector<T>({T(1), T(2)}));
    ExpectTensor(BinaryResult("Mul", Tensor::Of<T>({1, 2}, {T(3), T(4)}), Tensor::Of<T>({2, 1}, {T(2), T(3)})),
                 Tensor::Of<T>({2, 2}, {T(6), T(8), T(9), T(12)}));
    return absl::OkStatus();
  };
  for (const DType t : {kFloat, kDouble, kHalf, kBfloat16, kInt8, kInt16, kInt32, kInt64, kUint8, kUint16, kUint32,
                        kUint64, kComplex64, kComplex128}) {
    ASSERT_TRUE(Dispatch(NumberTypes(), t, check).ok());
  }
}

TEST(BinaryArithmeticTest, IntegersWrapAround) {
  ExpectTensor(
      BinaryResult("AddV2", Tensor::Scalar<int32_t>(std::numeric_limits<int32_t>::max()), Tensor::Scalar<int32_t>(1)),
      Tensor::Scalar<int32_t>(std::numeric_limits<int32_t>::min()));
  ExpectTensor(
      BinaryResult("Mul", Tensor::Scalar<int64_t>(std::numeric_limits<int64_t>::max()), Tensor::Scalar<int64_t>(2)),
      Tensor::Scalar<int64_t>(-2));
  ExpectTensor(BinaryResult("Mul", Tensor::Scalar<uint16_t>(65535), Tensor::Scalar<uint16_t>(65535)),
               Tensor::Scalar<uint16_t>(1));
}

TEST(BinaryArithmeticTest, StringsAreConcatenated) {
  ExpectTensor(BinaryResult("Add", Tensor::Vector<std::string>({"a", "b"}), Tensor::Scalar<std::string>("x")),
               Tensor::Vector<std::string>({"ax", "bx"}));
  EXPECT_FALSE(RunOp("AddV2", {Tensor::Scalar<std::string>("a"), Tensor::Scalar<std::string>("x")}).ok());
}

TEST(BinaryArithmeticTest, ComplexNumbers) {
  using C = std::complex<float>;
  ExpectTensor(BinaryResult("Mul", Tensor::Scalar<C>({1, 2}), Tensor::Scalar<C>({3, 4})), Tensor::Scalar<C>({-5, 10}));
  ExpectTensor(BinaryResult("SquaredDifference", Tensor::Scalar<C>({1, 2}), Tensor::Scalar<C>({0, 0})),
               Tensor::Scalar<C>({5, 0}));
}

TEST(BinaryArithmeticTest, MaximumAndMinimumPassNanOn) {
  const Tensor x = Tensor::Vector<float>({1, kNan, 3}), y = Tensor::Vector<float>({2, 2, kNan});
  ExpectTensor(BinaryResult("Maximum", x, y), Tensor::Vector<float>({2, kNan, kNan}));
  ExpectTensor(BinaryResult("Minimum", x, y), Tensor::Vector<float>({1, kNan, kNan}));
  ExpectTensor(BinaryResult("Maximum", Tensor::Vector<uint8_t>({1, 200}), Tensor::Scalar<uint8_t>(100)),
               Tensor::Vector<uint8_t>({100, 200}));
}

TEST(BinaryArithmeticTest, MulNoNan) {
  const float inf = std::numeric_limits<float>::infinity();
  ExpectTensor(BinaryResult("MulNoNan", Tensor::Vector<float>({inf, kNan, 2}), Tensor::Vector<float>({0, 0, 3})),
               Tensor::Vector<float>({0, 0, 6}));
}

TEST(BinaryArithmeticTest, IncompatibleShapes) {
  const absl::Status status = RunOp("AddV2", {Tensor(kFloat, {2}), Tensor(kFloat, {3})}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RunOp("AddV2", {Tensor(kFloat, {2}), Tensor(kInt32, {2})}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(BinaryArithmeticTest, Shapes) {
  EXPECT_EQ(*InferShape("Mul", {{kFloat, {-1, 3}}, {kFloat, {3}}}), "[?,3]");
  EXPECT_EQ(*InferShape("Mul", {{kFloat, {2, 1}}, {kFloat, {1, 5}}}), "[2,5]");
  EXPECT_EQ(*InferShape("Mul", {{kFloat, PartialShape()}, {kFloat, {3}}}), "<unknown>");
}

TEST(BinaryArithmeticTest, Gradients) {
  const Tensor x = TestValues(kDouble, {2, 3}), y = TestValues(kDouble, {2, 3}, -1, 1, 5);
  const Tensor row = TestValues(kDouble, {3}, -1, 1, 6), column = TestValues(kDouble, {2, 1}, -1, 1, 7);
  const Tensor scalar = TestValues(kDouble, {}, 0.5, 1, 8);
  for (const char* op : {"Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference", "MulNoNan"}) {
    SCOPED_TRACE(op);
    const auto build = [&](const Scope& s, const std::vector<Output>& in) { return Output(s.Add(op, {in[0], in[1]})); };
    for (const Tensor& other : {y, row, column, scalar}) {
      ExpectGradient(build, {x, other});
      ExpectGradient(build, {other, x});
    }
    ExpectGradient(build, {row, column});
  }
}

// Shapes that are only known when the step runs.
TEST(BinaryArithmeticTest, GradientsOfUnknownShapes) {
  const auto build = [&](const Scope& s, const std::vector<Output>& in) {
    const Output x = s.Add("PlaceholderWithDefault", {in[0]}, {{"shape", PartialShape()}});
    const Output y = s.Add("PlaceholderWithDefault", {in[1]}, {{"shape", PartialShape({-1})}});
    return Mul(s, x, y);
  };
  ExpectGradient(build, {TestValues(kDouble, {2, 3}), TestValues(kDouble, {3})});
  ExpectGradient(build, {TestValues(kDouble, {2, 1}), TestValues(kDouble, {3})});
}

}  // namespace
}  // namespace thalweg
