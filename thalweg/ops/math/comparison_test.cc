#include <limits>

#include "thalweg/kernel/op_testlib.h"

namespace thalweg {
namespace {

Tensor Result(absl::string_view op, const Tensor& x, const Tensor& y, std::vector<AttrArg> attrs = {}) {
  absl::StatusOr<std::vector<Tensor>> z = RunOp(op, {x, y}, std::move(attrs));
  EXPECT_TRUE(z.ok()) << op << ": " << z.status();
  return z.ok() ? (*z)[0] : Tensor();
}

TEST(ComparisonTest, Orders) {
  const Tensor x = Tensor::Vector<int64_t>({1, 2, 3}), y = Tensor::Scalar<int64_t>(2);
  ExpectTensor(Result("Less", x, y), Tensor::Vector<bool>({true, false, false}));
  ExpectTensor(Result("LessEqual", x, y), Tensor::Vector<bool>({true, true, false}));
  ExpectTensor(Result("Greater", x, y), Tensor::Vector<bool>({false, false, true}));
  ExpectTensor(Result("GreaterEqual", x, y), Tensor::Vector<bool>({false, true, true}));
  ExpectTensor(Result("Equal", x, y), Tensor::Vector<bool>({false, true, false}));
  ExpectTensor(Result("NotEqual", x, y), Tensor::Vector<bool>({true, false, true}));
}

TEST(ComparisonTest, NanIsUnequalToEverything) {
  const Tensor nan = Tensor::Scalar<float>(std::numeric_limits<float>::quiet_NaN());
  for (const char* op : {"Less", "LessEqual", "Greater", "GreaterEqual", "Equal"}) {
    ExpectTensor(Result(op, nan, nan), Tensor::Scalar<bool>(false));
  }
  ExpectTensor(Result("NotEqual", nan, nan), Tensor::Scalar<bool>(true));
}

TEST(ComparisonTest, EqualTakesEveryType) {
  ExpectTensor(Result("Equal", Tensor::Vector<std::string>({"a", "b"}), Tensor::Scalar<std::string>("b")),
               Tensor::Vector<bool>({false, true}));
  ExpectTensor(Result("NotEqual", Tensor::Vector<bool>({true, false}), Tensor::Scalar<bool>(true)),
               Tensor::Vector<bool>({false, true}));
  using C = std::complex<double>;
  ExpectTensor(Result("Equal", Tensor::Scalar<C>({1, 2}), Tensor::Vector<C>({{1, 2}, {2, 1}})),
               Tensor::Vector<bool>({true, false}));
  ExpectTensor(Result("Equal", Tensor::Vector<Half>({Half(1), Half(2)}), Tensor::Scalar<Half>(Half(2))),
               Tensor::Vector<bool>({false, true}));
  ExpectTensor(
      Result("Less", Tensor::Vector<BFloat16>({BFloat16(1), BFloat16(2)}), Tensor::Scalar<BFloat16>(BFloat16(2))),
      Tensor::Vector<bool>({true, false}));
}

TEST(ComparisonTest, LongRows) {
  const int64_t n = 100'000;
  const Tensor x = TestValues(kFloat, {n});
  const Tensor z = Result("Less", x, Tensor::Scalar<float>(0));
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(z.data<bool>()[i], x.data<float>()[i] < 0);
}

TEST(ComparisonTest, ShapesThatDoNotFit) {
  const Tensor x(kFloat, {2}), y(kFloat, {3});
  EXPECT_EQ(RunOp("Equal", {x, y}).status().code(), absl::StatusCode::kInvalidArgument);
  ExpectTensor(Result("Equal", x, y, {{"incompatible_shape_error", false}}), Tensor::Scalar<bool>(false));
  ExpectTensor(Result("NotEqual", x, y, {{"incompatible_shape_error", false}}), Tensor::Scalar<bool>(true));
  EXPECT_EQ(*InferShape("Equal", {{kFloat, {2}}, {kFloat, {3}}}, {{"incompatible_shape_error", false}}), "<unknown>");
  EXPECT_EQ(*InferShape("Equal", {{kFloat, {2}}, {kFloat, Shape()}}), "[2]");
}

TEST(ComparisonTest, ApproximateEqual) {
  const Tensor x = Tensor::Vector<float>({1, 2}), y = Tensor::Vector<float>({1.000001f, 2.1f});
  ExpectTensor(Result("ApproximateEqual", x, y), Tensor::Vector<bool>({true, false}));
  ExpectTensor(Result("ApproximateEqual", x, y, {{"tolerance", 0.2f}}), Tensor::Vector<bool>({true, true}));
  ExpectTensor(Result("ApproximateEqual", Tensor::Vector<uint8_t>({1, 2}), Tensor::Vector<uint8_t>({1, 3})),
               Tensor::Vector<bool>({true, false}));
  EXPECT_EQ(RunOp("ApproximateEqual", {x, Tensor(kFloat, {3})}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ComparisonTest, Logic) {
  const Tensor x = Tensor::Vector<bool>({false, true}), y = Tensor::Of<bool>({2, 1}, {false, true});
  ExpectTensor(Result("LogicalAnd", x, y), Tensor::Of<bool>({2, 2}, {false, false, false, true}));
  ExpectTensor(Result("LogicalOr", x, y), Tensor::Of<bool>({2, 2}, {false, true, true, true}));
}

}  // namespace
}  // namespace thalweg
