// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/math_ops.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

TEST(AddNTest, AnyNumberOfInputs) {
  for (int count = 1; count <= 7; ++count) {
    std::vector<Tensor> inputs;
    for (int i = 0; i < count; ++i) inputs.push_back(Tensor::Vector<float>({1.0f, static_cast<float>(i)}));
    const Tensor expected =
        Tensor::Vector<float>({static_cast<float>(count), static_cast<float>(count * (count - 1) / 2)});
    absl::StatusOr<std::vector<Tensor>> sum = RunOp("AddN", {inputs});
    ASSERT_TRUE(sum.ok()) << sum.status();
    ExpectTensor((*sum)[0], expected);
    sum = RunOp("AccumulateNV2", {inputs}, {{"shape", PartialShape({2})}});
    ASSERT_TRUE(sum.ok()) << sum.status();
    ExpectTensor((*sum)[0], expected);
  }
}

TEST(AddNTest, LargeTensorsAndOtherTypes) {
  const Tensor x = TestValues(kDouble, {100'000});
  const Tensor sum = (*RunOp("AddN", {std::vector<Tensor>{x, x, x}}))[0];
  for (int64_t i = 0; i < 100'000; i += 7)
    ASSERT_DOUBLE_EQ(sum.data<double>()[i], x.data<double>()[i] * 2 + x.data<double>()[i]);
  const Tensor h = Tensor::Vector<Half>({Half(1), Half(2)});
  ExpectTensor((*RunOp("AddN", {std::vector<Tensor>{h, h, h}}))[0], Tensor::Vector<Half>({Half(3), Half(6)}));
}

TEST(AddNTest, ShapesMustBeEqual) {
  const absl::Status status = RunOp("AddN", {std::vector<Tensor>{Tensor(kFloat, {2}), Tensor(kFloat, {3})}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(AddNTest, Gradient) {
  ExpectGradient([](const Scope& s, const std::vector<Output>& in) { return AddN(s, in); },
                 {TestValues(kDouble, {3}), TestValues(kDouble, {3}, 0, 1, 2), TestValues(kDouble, {3}, 0, 1, 3)});
}

}  // namespace
}  // namespace thalweg
