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
