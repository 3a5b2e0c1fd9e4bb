// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

const Tensor kTransformedImage = Tensor::Of<float>({1, 2, 2, 1}, {1, 2, 3, 4});

TEST(ProjectiveTransformTest, ShiftsAndFills) {
  const Tensor right = Tensor::Of<float>({1, 8}, {1, 0, -1, 0, 1, 0, 0, 0});
  const auto shifted = [&](const char* mode) {
    const auto out = RunOp("ImageProjectiveTransformV3",
                           {kTransformedImage, right, Tensor::Vector<int32_t>({2, 2}), Tensor::Scalar(9.0f)},
                           {{"interpolation", "NEAREST"}, {"fill_mode", mode}});
    return out.ok() ? (*out)[0] : Tensor::Vector<float>({});
  };
  ExpectTensor(shifted("CONSTANT"), Tensor::Of<float>({1, 2, 2, 1}, {9, 1, 9, 3}));
  ExpectTensor(shifted("NEAREST"), Tensor::Of<float>({1, 2, 2, 1}, {1, 1, 3, 3}));
  ExpectTensor(shifted("REFLECT"), Tensor::Of<float>({1, 2, 2, 1}, {1, 1, 3, 3}));
}

TEST(ProjectiveTransformTest, BadInputIsAnError) {
  const Tensor size = Tensor::Vector<int32_t>({2, 2}), one = Tensor(kFloat, {1, 8});
  const std::vector<AttrArg> nearest = {{"interpolation", "NEAREST"}};
  EXPECT_FALSE(RunOp("ImageProjectiveTransformV2", {kTransformedImage, Tensor(kFloat, {2, 8}), size}, nearest).ok());
  EXPECT_FALSE(
      RunOp("ImageProjectiveTransformV2", {kTransformedImage, one, Tensor::Vector<int32_t>({0, 2})}, nearest).ok());
  EXPECT_FALSE(RunOp("ImageProjectiveTransformV2", {kTransformedImage, one, size}, {{"interpolation", "CUBIC"}}).ok());
  EXPECT_FALSE(RunOp("ImageProjectiveTransformV2", {Tensor(kFloat, {1, 0, 2, 1}), one, size}, nearest).ok());
}

TEST(GlimpseTest, PartsOutsideAreNoise) {
  const auto out =
      RunOp("ExtractGlimpseV2", {kTransformedImage, Tensor::Vector<int32_t>({2, 2}), Tensor::Of<float>({1, 2}, {1, 1})},
            {{"centered", false}, {"normalized", false}, {"uniform_noise", false}, {"noise", "zero"}});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensor((*out)[0], Tensor::Of<float>({1, 2, 2, 1}, {4, 0, 0, 0}));
  for (const char* noise : {"uniform", "gaussian"}) {
    const bool uniform = noise[0] == 'u';
    const auto far = RunOp(
        "ExtractGlimpse", {kTransformedImage, Tensor::Vector<int32_t>({2, 2}), Tensor::Of<float>({1, 2}, {1e30f, NAN})},
        {{"uniform_noise", uniform}, {"noise", noise}});
    EXPECT_TRUE(far.ok()) << far.status();
  }
}

TEST(GlimpseTest, BadInputIsAnError) {
  const Tensor size = Tensor::Vector<int32_t>({2, 2}), place = Tensor(kFloat, {1, 2});
  EXPECT_FALSE(RunOp("ExtractGlimpse", {kTransformedImage, size, place}, {{"noise", "gaussian"}}).ok());
  EXPECT_FALSE(RunOp("ExtractGlimpse", {kTransformedImage, size, Tensor(kFloat, {2, 2})}).ok());
  EXPECT_FALSE(RunOp("ExtractGlimpse", {kTransformedImage, Tensor::Vector<int32_t>({-2, 2}), place}).ok());
}

TEST(ImageShapeTest, OfTransformAndGlimpse) {
  EXPECT_EQ(InferShape("ExtractGlimpse", {{kFloat, {5, 8, 8, 3}}, {kInt32, {2}}, {kFloat, {5, 2}}}).value(),
            "[5,?,?,3]");
  EXPECT_EQ(InferShape("CombinedNonMaxSuppression", {{kFloat, {2, 9, 1, 4}},
                                                     {kFloat, {2, 9, 3}},
                                                     {kInt32, PartialShape(Shape())},
                                                     {kInt32, PartialShape(Shape())},
                                                     {kFloat, PartialShape(Shape())},
                                                     {kFloat, PartialShape(Shape())}})
                .value(),
            "[2,?,4]");
}

}  // namespace
}  // namespace thalweg
