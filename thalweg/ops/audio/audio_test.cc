// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

TEST(AudioTest, WavThereAndBack) {
  const Tensor sound = Tensor::Of<float>({3, 2}, {0, 0.5f, -1, 0.25f, -0.125f, 2});
  const auto wav = RunOp("EncodeWav", {sound, Tensor::Scalar<int32_t>(8000)});
  ASSERT_TRUE(wav.ok()) << wav.status();
  EXPECT_EQ((*wav)[0].scalar<std::string>().size(), 44 + 12);
  const auto back = RunOp("DecodeWav", {(*wav)[0]});
  ASSERT_TRUE(back.ok()) << back.status();
  ExpectTensor((*back)[0], Tensor::Of<float>({3, 2}, {0, 0.5f, -1, 0.25f, -0.125f, 0.99997f}), 1e-5);
  EXPECT_EQ((*back)[1].scalar<int32_t>(), 8000);
}

TEST(AudioTest, FilesThatAreCutShortAreErrors) {
  const auto wav = RunOp("EncodeWav", {Tensor::Of<float>({2, 1}, {0, 1}), Tensor::Scalar<int32_t>(8000)});
  const std::string whole = (*wav)[0].scalar<std::string>();
  for (size_t n = 0; n < whole.size(); ++n) {
    EXPECT_FALSE(RunOp("DecodeWav", {Tensor::Scalar(whole.substr(0, n))}).ok()) << n;
  }
}

TEST(AudioTest, SpectrogramOfOneTone) {
  Tensor sound(kFloat, {64, 1});
  for (int i = 0; i < 64; ++i) sound.flat<float>()[i] = std::cos(2 * M_PI * i / 8);
  const auto out = RunOp("AudioSpectrogram", {sound}, {{"window_size", 32}, {"stride", 16}});
  ASSERT_TRUE(out.ok()) << out.status();
  ASSERT_EQ((*out)[0].shape(), Shape({1, 3, 17}));
  const float* const first = (*out)[0].data<float>();
  EXPECT_EQ(std::max_element(first, first + 17) - first, 4);  // 32 samples have four periods
}

TEST(AudioTest, BadInputIsAnError) {
  const Tensor rate = Tensor::Scalar<int32_t>(8000);
  EXPECT_FALSE(RunOp("EncodeWav", {Tensor::Vector<float>({1}), rate}).ok());
  EXPECT_FALSE(RunOp("EncodeWav", {Tensor::Of<float>({1, 1}, {1}), Tensor::Scalar<int32_t>(-1)}).ok());
  EXPECT_FALSE(RunOp("AudioSpectrogram", {Tensor::Of<float>({1, 1}, {1})}, {{"window_size", 1}, {"stride", 1}}).ok());
  EXPECT_FALSE(RunOp("AudioSpectrogram", {Tensor::Of<float>({1, 1}, {1})}, {{"window_size", 4}, {"stride", 0}}).ok());
  EXPECT_FALSE(RunOp("Mfcc", {Tensor::Of<float>({1, 1, 1}, {1}), rate}).ok());
  EXPECT_FALSE(RunOp("Mfcc", {Tensor(kFloat, {1, 1, 9}), rate}, {{"dct_coefficient_count", 41}}).ok());
}

TEST(AudioTest, Shapes) {
  const std::pair<DType, PartialShape> rate = {kInt32, PartialShape(Shape())};
  EXPECT_EQ(InferShape("AudioSpectrogram", {{kFloat, {100, 2}}}, {{"window_size", 20}, {"stride", 10}}).value(),
            "[2,9,17]");
  EXPECT_EQ(InferShape("Mfcc", {{kFloat, {2, -1, 17}}, rate}).value(), "[2,?,13]");
  EXPECT_EQ(InferShape("DecodeWav", {{kString, PartialShape(Shape())}}, {{"desired_channels", 2}}).value(), "[?,2]");
}

}  // namespace
}  // namespace thalweg
