// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/math_ops.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

Tensor SelectResult(absl::string_view op, const Tensor& c, const Tensor& t, const Tensor& e) {
  absl::StatusOr<std::vector<Tensor>> y = RunOp(op, {c, t, e});
  EXPECT_TRUE(y.ok()) << op << ": " << y.status();
  return y.ok() ? (*y)[0] : Tensor();
}

TEST(SelectTest, EachElement) {
  const Tensor c = Tensor::Vector<bool>({true, false, true});
  for (const char* op : {"Select", "SelectV2"}) {
    ExpectTensor(SelectResult(op, c, Tensor::Vector<float>({1, 2, 3}), Tensor::Vector<float>({10, 20, 30})),
                 Tensor::Vector<float>({1, 20, 3}));
    ExpectTensor(SelectResult(op, c, Tensor::Vector<uint8_t>({1, 2, 3}), Tensor::Vector<uint8_t>({10, 20, 30})),
                 Tensor::Vector<uint8_t>({1, 20, 3}));
    ExpectTensor(
        SelectResult(op, c, Tensor::Vector<std::string>({"a", "b", "c"}), Tensor::Vector<std::string>({"x", "y", "z"})),
        Tensor::Vector<std::string>({"a", "y", "c"}));
    using C = std::complex<double>;
    ExpectTensor(SelectResult(op, c, Tensor::Vector<C>({1, 2, 3}), Tensor::Vector<C>({10, 20, 30})),
                 Tensor::Vector<C>({1, 20, 3}));
  }
}

TEST(SelectTest, ScalarConditionOfAnyShape) {
  for (const char* op : {"Select", "SelectV2"}) {
    ExpectTensor(SelectResult(op, Tensor::Scalar<bool>(false), Tensor::Scalar<std::string>("a"),
                              Tensor::Scalar<std::string>("b")),
                 Tensor::Scalar<std::string>("b"));
    ExpectTensor(
        SelectResult(op, Tensor::Scalar<bool>(true), Tensor::Vector<int32_t>({1, 2}), Tensor::Vector<int32_t>({3, 4})),
        Tensor::Vector<int32_t>({1, 2}));
  }
}

TEST(SelectTest, ConditionPerRow) {
  ExpectTensor(SelectResult("Select", Tensor::Vector<bool>({true, false}), Tensor::Of<float>({2, 2}, {1, 2, 3, 4}),
                            Tensor::Of<float>({2, 2}, {5, 6, 7, 8})),
               Tensor::Of<float>({2, 2}, {1, 2, 7, 8}));
}

TEST(SelectTest, V2Broadcasts) {
  ExpectTensor(SelectResult("SelectV2", Tensor::Of<bool>({2, 1}, {true, false}), Tensor::Vector<float>({1, 2}),
                            Tensor::Scalar<float>(9)),
               Tensor::Of<float>({2, 2}, {1, 2, 9, 9}));
  ExpectTensor(SelectResult("SelectV2", Tensor::Vector<bool>({true, false}), Tensor::Of<int64_t>({2, 1}, {1, 2}),
                            Tensor::Of<int64_t>({1, 2}, {8, 9})),
               Tensor::Of<int64_t>({2, 2}, {1, 9, 2, 9}));
  ExpectTensor(SelectResult("SelectV2", Tensor::Scalar<bool>(true), Tensor::Of<float>({2, 1, 1}, {1, 2}),
                            Tensor(kFloat, {3, 1})),
               Tensor::Of<float>({2, 3, 1}, {1, 1, 1, 2, 2, 2}));
  ExpectTensor(SelectResult("SelectV2", Tensor(kBool, {0, 1}), Tensor::Vector<float>({1, 2}), Tensor::Scalar<float>(9)),
               Tensor(kFloat, {0, 2}));
}

TEST(SelectTest, BadInput) {
  const Tensor c = Tensor::Vector<bool>({true, false});
  const auto code = [&](absl::string_view op, const Tensor& condition, const Tensor& t, const Tensor& e) {
    return RunOp(op, {condition, t, e}).status().code();
  };
  EXPECT_EQ(code("Select", c, Tensor(kFloat, {3, 2}), Tensor(kFloat, {3, 2})), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("Select", c, Tensor(kFloat, {2, 2}), Tensor(kFloat, {2})), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("Select", c, Tensor(kFloat, {}), Tensor(kFloat, {})), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("Select", Tensor(kBool, {2, 1}), Tensor(kFloat, {2, 2}), Tensor(kFloat, {2, 2})),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("SelectV2", c, Tensor(kFloat, {3}), Tensor(kFloat, {3})), absl::StatusCode::kInvalidArgument);
}

TEST(SelectTest, Gradients) {
  const Tensor c = Tensor::Vector<bool>({true, false}), t = TestValues(kDouble, {2}),
               e = TestValues(kDouble, {2}, 0, 1, 2);
  for (const char* op : {"Select", "SelectV2"}) {
    ExpectGradient(
        [&](const Scope& s, const std::vector<Output>& in) {
          return Output(s.Add(op, {in[2], in[0], in[1]}));
        },
        {t, e, c});
  }
  ExpectGradient([](const Scope& s, const std::vector<Output>& in) { return Select(s, in[2], in[0], in[1]); },
                 {TestValues(kDouble, {3, 1}), TestValues(kDouble, {}, 0, 1, 2), c});
}

TEST(ClipByValueTest, Values) {
  const Tensor t = Tensor::Vector<float>({-5, 0, 5});
  const auto clip = [&](const Tensor& low, const Tensor& high) { return (*RunOp("ClipByValue", {t, low, high}))[0]; };
  ExpectTensor(clip(Tensor::Scalar<float>(-1), Tensor::Scalar<float>(1)), Tensor::Vector<float>({-1, 0, 1}));
  ExpectTensor(clip(Tensor::Vector<float>({-9, 1, -1}), Tensor::Scalar<float>(1)), Tensor::Vector<float>({-5, 1, 1}));
  ExpectTensor(clip(Tensor::Scalar<float>(3), Tensor::Scalar<float>(1)), Tensor::Vector<float>({3, 3, 3}));
  ExpectTensor((*RunOp("ClipByValue",
                       {Tensor::Vector<uint8_t>({1, 200}), Tensor::Scalar<uint8_t>(5), Tensor::Scalar<uint8_t>(9)}))[0],
               Tensor::Vector<uint8_t>({5, 9}));
  const absl::Status status = RunOp("ClipByValue", {t, Tensor(kFloat, {2}), Tensor::Scalar<float>(1)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("must be either of the same shape as input, or a scalar"));
}

TEST(ClipByValueTest, Gradients) {
  const auto build = [](const Scope& s, const std::vector<Output>& in) { return ClipByValue(s, in[0], in[1], in[2]); };
  const Tensor t = Tensor::Vector<double>({-2, 0.1, 2});
  ExpectGradient(build, {t, Tensor::Scalar<double>(-1), Tensor::Scalar<double>(1)});
  ExpectGradient(build, {t, Tensor::Vector<double>({-1, -1, -1}), Tensor::Scalar<double>(1)});
}

}  // namespace
}  // namespace thalweg
