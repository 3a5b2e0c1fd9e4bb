// SPDX-License-Identifier: Apache-2.0
// Tests of extract_patches.cc, dilation2d.cc, fractional_pool.cc, inplace.cc,
// data_format.cc and sets.cc: what the comparison with TensorFlow does not show.
#include "thalweg/kernel/op_testlib.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;
using Sizes = std::vector<int64_t>;

std::vector<Tensor> Results(absl::string_view op, std::vector<OpArg> inputs, std::vector<AttrArg> attrs = {}) {
  absl::StatusOr<std::vector<Tensor>> y = RunOp(op, std::move(inputs), std::move(attrs));
  EXPECT_TRUE(y.ok()) << op << ": " << y.status();
  return y.ok() ? *y : std::vector<Tensor>(3);
}

const Tensor kImage = Tensor::Of<float>({1, 2, 2, 1}, {1, 2, 3, 4});
const Sizes kOnes(4, 1);

TEST(PatchesTest, Values) {
  ExpectTensor(Results("ExtractImagePatches", {kImage},
                       {{"ksizes", Sizes{1, 2, 2, 1}}, {"strides", kOnes}, {"rates", kOnes}, {"padding", "VALID"}})[0],
               Tensor::Of<float>({1, 1, 1, 4}, {1, 2, 3, 4}));
  ExpectTensor(Results("Dilation2D", {kImage, Tensor::Of<float>({1, 2, 1}, {0, 10})},
                       {{"strides", kOnes}, {"rates", kOnes}, {"padding", "VALID"}})[0],
               Tensor::Of<float>({1, 2, 1, 1}, {12, 14}));
}

TEST(PatchesTest, DilationGradient) {
  ExpectGradient(
      [](const Scope& s, const std::vector<Output>& v) {
        return Output(
            s.Add("Dilation2D", {v[0], v[1]}, {{"strides", Sizes{1, 2, 1, 1}}, {"rates", kOnes}, {"padding", "SAME"}}));
      },
      {TestValues(kDouble, {1, 4, 5, 2}, -9, 9), TestValues(kDouble, {2, 3, 2}, -1, 1, 2)});
}

TEST(PatchesTest, BadInput) {
  const auto patches = [&](Sizes ksizes, Sizes strides, Sizes rates) {
    return RunOp("ExtractImagePatches", {kImage},
                 {{"ksizes", ksizes}, {"strides", strides}, {"rates", rates}, {"padding", "VALID"}})
        .ok();
  };
  EXPECT_FALSE(patches({1, 0, 2, 1}, kOnes, kOnes));
  EXPECT_FALSE(patches({1, 2, 2, 2}, kOnes, kOnes));
  EXPECT_FALSE(patches({1, 2, 2, 1}, {1, 0, 1, 1}, kOnes));
  EXPECT_FALSE(patches({1, 2, 2, 1}, kOnes, {1, 1, 0, 1}));
  EXPECT_FALSE(patches({1, 2000000000, 2000000000, 1}, kOnes, kOnes));
  const Tensor sequence = Tensor::Vector<int64_t>({0, 2});
  const Tensor wrong = Tensor::Vector<int64_t>({0, 99});
  const Tensor y = Tensor::Of<float>({1, 1, 1, 1}, {4});
  ExpectTensor(Results("FractionalMaxPoolGrad", {kImage, y, y, sequence, sequence})[0],
               Tensor::Of<float>({1, 2, 2, 1}, {0, 0, 0, 4}));
  EXPECT_FALSE(RunOp("FractionalMaxPoolGrad", {kImage, y, y, wrong, sequence}).ok());
  EXPECT_FALSE(RunOp("FractionalMaxPoolGrad", {kImage, y, y, Tensor::Vector<int64_t>({0}), sequence}).ok());
  EXPECT_FALSE(RunOp("FractionalAvgPoolGrad", {Tensor::Vector<int64_t>({1, 2, -2, 1}), y, sequence, sequence}).ok());
  EXPECT_FALSE(RunOp("FractionalAvgPool", {kImage}, {{"pooling_ratio", std::vector<float>{1, 0.5f, 1, 1}}}).ok());
  EXPECT_FALSE(RunOp("FractionalAvgPool", {kImage}, {{"pooling_ratio", std::vector<float>{1, NAN, 1, 1}}}).ok());
}

TEST(InplaceTest, LeavesItsInputAlone) {
  const Tensor x = Tensor::Vector<float>({1, 2, 3});
  ExpectTensor(Results("InplaceAdd", {x, Tensor::Vector<int32_t>({-1}), Tensor::Vector<float>({5})})[0],
               Tensor::Vector<float>({1, 2, 8}));
  ExpectTensor(x, Tensor::Vector<float>({1, 2, 3}));
  EXPECT_FALSE(
      RunOp("InplaceUpdate", {Tensor(kFloat, {0}), Tensor::Vector<int32_t>({0}), Tensor::Vector<float>({1})}).ok());
  EXPECT_FALSE(RunOp("InplaceUpdate", {Tensor::Scalar(1.0f), Tensor::Vector<int32_t>({0}), Tensor::Scalar(1.0f)}).ok());
}

TEST(DataFormatTest, BadFormats) {
  const Tensor x = Tensor::Vector<int32_t>({1, 2, 3, 4});
  EXPECT_FALSE(RunOp("DataFormatVecPermute", {x}, {{"src_format", "NHWC"}, {"dst_format", "NHW"}}).ok());
  EXPECT_FALSE(RunOp("DataFormatVecPermute", {x}, {{"src_format", "NHWC"}, {"dst_format", "NHWX"}}).ok());
  EXPECT_FALSE(RunOp("DataFormatDimMap", {x}, {{"src_format", ""}}).ok());
}

TEST(SetsTest, Values) {
  const std::vector<Tensor> y =
      Results("DenseToDenseSetOperation", {Tensor::Of<int32_t>({1, 3}, {3, 1, 3}), Tensor::Of<int32_t>({1, 1}, {1})},
              {{"set_operation", "a-b"}});
  ExpectTensor(y[1], Tensor::Vector<int32_t>({3}));
  ExpectTensor(y[2], Tensor::Vector<int64_t>({1, 1}));
  EXPECT_FALSE(RunOp("SetSize", {Tensor::Of<int64_t>({1, 2}, {0, 7}), Tensor::Vector<int32_t>({1}),
                                 Tensor::Vector<int64_t>({1, 2})})
                   .ok());
}

}  // namespace
}  // namespace thalweg
