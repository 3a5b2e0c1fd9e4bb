// SPDX-License-Identifier: Apache-2.0
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

TEST(AdjustHsvInYiqTest, ScalesValueAndSaturation) {
  const Tensor pixel = Tensor::Of<float>({1, 1, 3}, {0.2f, 0.4f, 0.6f});
  const auto adjusted = [&](float hue, float saturation, float value) {
    const auto out =
        RunOp("AdjustHsvInYiq", {pixel, Tensor::Scalar(hue), Tensor::Scalar(saturation), Tensor::Scalar(value)});
    return out.ok() ? (*out)[0] : Tensor::Vector<float>({});
  };
  ExpectTensor(adjusted(0, 1, 1), pixel, 1e-2);
  ExpectTensor(adjusted(0, 1, 2), Tensor::Of<float>({1, 1, 3}, {0.4f, 0.8f, 1.2f}), 1e-2);
  const float gray = 0.299f * 0.2f + 0.587f * 0.4f + 0.114f * 0.6f;
  ExpectTensor(adjusted(1, 0, 1), Tensor::Of<float>({1, 1, 3}, {gray, gray, gray}), 1e-5);
  ExpectTensor(adjusted(2 * 3.14159265f, 1, 1), pixel, 1e-2);
}

TEST(AdjustHsvInYiqTest, BadInputIsAnError) {
  const Tensor one = Tensor::Scalar(1.0f);
  const auto error = [&](Tensor images, Tensor hue) {
    return RunOp("AdjustHsvInYiq", {std::move(images), std::move(hue), one, one}).status().ToString();
  };
  EXPECT_THAT(error(Tensor(kFloat, {2, 2, 4}), one),
              HasSubstr("input must have 3 channels but instead has 4 channels"));
  EXPECT_THAT(error(Tensor(kFloat, {3, 3}), one), HasSubstr("input must be at least 3-D"));
  EXPECT_THAT(error(Tensor(kFloat, {2, 2, 3}), Tensor(kFloat, {1})), HasSubstr("delta_h must be scalar: [1]"));
  EXPECT_THAT(error(Tensor(kUint8, {2, 2, 3}), one), HasSubstr("UNIMPLEMENTED"));
}

TEST(BipartiteMatchTest, TakesTheSmallestDistanceFirst) {
  const Tensor distances = Tensor::Of<float>({3, 2}, {0.5f, 0.1f, 0.2f, 0.9f, 0.3f, NAN});
  const auto expect = [&](float rows, int64_t top_k, const std::vector<int32_t>& columns,
                          const std::vector<int32_t>& matched_rows) {
    const auto out = RunOp("BipartiteMatch", {distances, Tensor::Scalar(rows)}, {{"top_k", top_k}});
    ASSERT_TRUE(out.ok()) << out.status();
    ExpectTensor((*out)[0], Tensor::Vector<int32_t>(columns));
    ExpectTensor((*out)[1], Tensor::Vector<int32_t>(matched_rows));
  };
  expect(-1, -1, {1, 0, -1}, {1, 0});
  expect(1, -1, {1, -1, -1}, {-1, 0});
  expect(3, 1, {1, -1, -1}, {-1, 0});
  expect(0, -1, {-1, -1, -1}, {-1, -1});
  EXPECT_THAT(RunOp("BipartiteMatch", {distances, Tensor::Scalar(4.0f)}).status().ToString(),
              HasSubstr("There should be at least 4 rows in distance_mat, but only got 3 rows."));
}

TEST(ImageConnectedComponentsTest, PixelsOfOneValueThatTouch) {
  const Tensor images = Tensor::Of<int32_t>({2, 3, 4}, {1, 0, 2, 2,  //
                                                        1, 1, 0, 2,  //
                                                        0, 1, 1, 0,  //
                                                        // The second image begins anew.
                                                        0, 1, 1, 1,  //
                                                        0, 1, 0, 1,  //
                                                        1, 0, 0, 3});
  const auto out = RunOp("ImageConnectedComponents", {images});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensor((*out)[0], Tensor::Of<int64_t>({2, 3, 4}, {1,  0,  3,  3,   //
                                                          1,  1,  0,  3,   //
                                                          0,  1,  1,  0,   //
                                                          0,  14, 14, 14,  //
                                                          0,  14, 0,  14,  //
                                                          21, 0,  0,  24}));
  const auto words = RunOp("ImageConnectedComponents", {Tensor::Of<std::string>({1, 1, 3}, {"a", "", "a"})});
  ASSERT_TRUE(words.ok()) << words.status();
  ExpectTensor((*words)[0], Tensor::Of<int64_t>({1, 1, 3}, {1, 0, 3}));
  EXPECT_FALSE(RunOp("ImageConnectedComponents", {Tensor(kFloat, {2, 2})}).ok());
}

// A U whose arms meet only in the last row.
TEST(ImageConnectedComponentsTest, JoinsPartsThatMeetLate) {
  const Tensor image = Tensor::Of<bool>({1, 3, 3}, {true, false, true, true, false, true, true, true, true});
  const auto out = RunOp("ImageConnectedComponents", {image});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensor((*out)[0], Tensor::Of<int64_t>({1, 3, 3}, {1, 0, 1, 1, 0, 1, 1, 1, 1}));
}

TEST(ProjectiveTransformTest, TheFirstVersionKeepsTheSize) {
  const Tensor image = Tensor::Of<float>({1, 2, 2, 1}, {1, 2, 3, 4});
  const auto out = RunOp("ImageProjectiveTransform", {image, Tensor::Of<float>({1, 8}, {1, 0, -1, 0, 1, 0, 0, 0})},
                         {{"interpolation", "NEAREST"}});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensor((*out)[0], Tensor::Of<float>({1, 2, 2, 1}, {0, 1, 0, 3}));
  const auto empty =
      RunOp("ImageProjectiveTransform", {Tensor(kFloat, {int64_t{1} << 40, 3, 0, 1}), Tensor(kFloat, {1, 8})},
            {{"interpolation", "NEAREST"}});
  EXPECT_TRUE(empty.ok()) << empty.status();
}

}  // namespace
}  // namespace thalweg
