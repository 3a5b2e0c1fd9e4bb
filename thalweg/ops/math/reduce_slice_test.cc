// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/op_testlib.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

TEST(ReduceSliceTest, SlicesAlongAnAxis) {
  const Tensor data = Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto reduced = [&](const char* op, Tensor indices, int64_t axis) {
    const auto out = RunOp(op, {data, std::move(indices), Tensor::Scalar(axis)});
    EXPECT_TRUE(out.ok()) << out.status();
    return out.ok() ? (*out)[0] : Tensor::Vector<float>({});
  };
  const Tensor pairs = Tensor::Of<int32_t>({3, 2}, {0, 2, 1, 9, 2, 2});
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ExpectTensor(reduced("ReduceSliceSum", pairs, 0), Tensor::Of<float>({3, 2}, {4, 6, 8, 10, 0, 0}));
  ExpectTensor(reduced("ReduceSliceProd", pairs, 0), Tensor::Of<float>({3, 2}, {3, 8, 15, 24, 1, 1}));
  ExpectTensor(reduced("ReduceSliceMax", pairs, 0), Tensor::Of<float>({3, 2}, {3, 4, 5, 6, -kInfinity, -kInfinity}));
  ExpectTensor(reduced("ReduceSliceMin", pairs, 0), Tensor::Of<float>({3, 2}, {1, 2, 3, 4, kInfinity, kInfinity}));
  // The borders between results.
  ExpectTensor(reduced("ReduceSliceSum", Tensor::Vector<int64_t>({0, 1, 2}), 1), data);
  ExpectTensor(reduced("ReduceSliceSum", Tensor::Vector<int64_t>({0, 2}), 1), Tensor::Of<float>({3, 1}, {3, 7, 11}));
  EXPECT_EQ(reduced("ReduceSliceSum", Tensor(kInt64, {0}), 0).shape(), Shape({0, 2}));
}

TEST(ReduceSliceTest, BadInputIsAnError) {
  const auto error = [](Tensor indices, Tensor axis) {
    return RunOp("ReduceSliceSum", {Tensor(kFloat, {3, 2}), std::move(indices), std::move(axis)}).status().ToString();
  };
  const Tensor pairs = Tensor::Of<int32_t>({1, 2}, {0, 2}), zero = Tensor::Scalar<int64_t>(0);
  EXPECT_THAT(error(pairs, Tensor::Scalar<int64_t>(2)), HasSubstr("axis 2 is not a dimension"));
  EXPECT_THAT(error(pairs, Tensor(kInt64, {1})), HasSubstr("axis must be a scalar"));
  EXPECT_THAT(error(Tensor(kInt32, {2, 3}), zero), HasSubstr("a matrix with two columns"));
  EXPECT_THAT(error(Tensor::Of<int32_t>({1, 2}, {-1, 2}), zero), HasSubstr("slice 0 begins at -1"));
}

}  // namespace
}  // namespace thalweg
