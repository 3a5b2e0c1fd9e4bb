// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/array_ops.h"

namespace thalweg {
namespace {

Tensor Ints(std::initializer_list<int32_t> v) { return Tensor::Vector<int32_t>(v); }

TEST(RollTest, Values) {
  const auto roll = [](const Tensor& x, const Tensor& shift, const Tensor& axis) {
    return (*RunOp("Roll", {x, shift, axis}))[0];
  };
  const Tensor one = Tensor::Scalar<int32_t>(1), zero = Tensor::Scalar<int32_t>(0);
  ExpectTensor(roll(Ints({0, 1, 2, 3, 4}), Tensor::Scalar<int64_t>(2), zero), Ints({3, 4, 0, 1, 2}));
  ExpectTensor(roll(Ints({0, 1, 2, 3, 4}), Tensor::Scalar<int64_t>(-11), zero), Ints({1, 2, 3, 4, 0}));
  const Tensor x = Tensor::Of<int32_t>({2, 3}, {0, 1, 2, 3, 4, 5});
  ExpectTensor(roll(x, one, Tensor::Scalar<int64_t>(-1)), Tensor::Of<int32_t>({2, 3}, {2, 0, 1, 5, 3, 4}));
  ExpectTensor(roll(x, Ints({1, 1}), Ints({0, 1})), Tensor::Of<int32_t>({2, 3}, {5, 3, 4, 2, 0, 1}));
  ExpectTensor(roll(x, Ints({1, 1, -2}), Ints({1, 0, 1})), Tensor::Of<int32_t>({2, 3}, {4, 5, 3, 1, 2, 0}));
  ExpectTensor(roll(x, Ints({}), Ints({})), x);
  const Tensor words = Tensor::Vector<std::string>({"a", "b", "c"});
  ExpectTensor(roll(words, one, zero), Tensor::Vector<std::string>({"c", "a", "b"}));
  // Rows of nothing may be many.
  const Tensor rows = Tensor::Zeros(kFloat, {int64_t{1} << 60, 0});
  ExpectTensor(roll(rows, one, zero), rows);
}

TEST(RollTest, Gradient) {
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& x) {
        return Roll(s, x[0], Const(s, {1, -2}), Const(s, {0, 2}));
      },
      {TestValues(kDouble, {2, 3, 4})});
}

TEST(RollTest, BadInput) {
  const Tensor x = TestValues(kFloat, {2, 3}), one = Tensor::Scalar<int32_t>(1);
  EXPECT_FALSE(RunOp("Roll", {Tensor::Scalar<float>(1), one, one}).ok());
  EXPECT_FALSE(RunOp("Roll", {x, one, Tensor::Scalar<int32_t>(2)}).ok());
  EXPECT_FALSE(RunOp("Roll", {x, one, Tensor::Scalar<int32_t>(-3)}).ok());
  EXPECT_FALSE(RunOp("Roll", {x, Ints({1, 2}), one}).ok());
  EXPECT_FALSE(RunOp("Roll", {x, Tensor::Zeros(kInt32, {1, 1}), Tensor::Zeros(kInt32, {1, 1})}).ok());
}

}  // namespace
}  // namespace thalweg
