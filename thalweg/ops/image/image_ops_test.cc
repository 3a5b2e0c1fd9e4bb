// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/image_ops.h"

#include "thalweg/ops/image/image_codec.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

Tensor Noise(Shape shape) { return TestValues(kFloat, std::move(shape), 0, 1); }
Tensor Bytes(Shape shape) {
  Tensor t(kUint8, std::move(shape));
  for (int64_t i = 0; i < t.num_elements(); ++i) t.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(i * 41);
  return t;
}

TEST(ResizeTest, Values) {
  const Tensor image = Tensor::Of<float>({1, 1, 2, 1}, {0, 4});
  const Tensor size = Ints({1, 4});
  ExpectTensor(Result("ResizeBilinear", {image, size}), Tensor::Of<float>({1, 1, 4, 1}, {0, 2, 4, 4}));
  ExpectTensor(Result("ResizeNearestNeighbor", {image, size}), Tensor::Of<float>({1, 1, 4, 1}, {0, 0, 4, 4}));
  ExpectTensor(Result("ResizeArea", {Tensor::Of<float>({1, 2, 2, 1}, {1, 2, 3, 6}), Ints({1, 1})}),
               Tensor::Of<float>({1, 1, 1, 1}, {3}));
  const Tensor same = Noise({1, 3, 4, 2});
  ExpectTensor(Result("ResizeBicubic", {same, Ints({3, 4})}), same);
  EXPECT_EQ(InferShape("ResizeBilinear", {{kFloat, {5, -1, -1, 3}}, {kInt32, {2}}}).value(), "[5,?,?,3]");
  ExpectInvalid(KernelError("ResizeBilinear", {image, Ints({0, 1})}), "output dimensions must be positive");
  ExpectInvalid(KernelError("ResizeArea", {Noise({2, 2}), size}), "input must be 4-dimensional[2,2]");
  ExpectInvalid(KernelError("ResizeBilinear", {Noise({100, 1, 1, 100}), Ints({INT32_MAX, INT32_MAX})}),
                "Encountered overflow when multiplying sizes: shape [100,2147483647,2147483647,100]");
}

// Larger, smaller, a whole number of times smaller, and the same: each pixel is mixed from its four neighbours.
TEST(ResizeTest, MixesFourPixels) {
  for (const int64_t channels : {1, 2, 3}) {
    const Tensor bytes = Bytes({2, 6, 8, channels});
    Tensor floats(kFloat, bytes.shape());
    for (int64_t i = 0; i < bytes.num_elements(); ++i) floats.mutable_data<float>()[i] = bytes.data<uint8_t>()[i];
    for (const auto& [height, width] : {std::pair(13, 17), {5, 3}, {3, 4}, {2, 8}, {6, 2}, {6, 8}, {12, 4}}) {
      const Tensor got = Result("ResizeBilinear", {bytes, Ints({height, width})});
      ExpectTensor(Result("ResizeBilinear", {floats, Ints({height, width})}), got);
      Tensor expected(kFloat, got.shape());
      float* to = expected.mutable_data<float>();
      for (int64_t row = 0; row < 2 * height; ++row) {
        const float* const image = floats.data<float>() + row / height * 6 * 8 * channels;
        const float at_y = static_cast<float>(row % height) * (6.0f / static_cast<float>(height));
        const int64_t y = static_cast<int64_t>(at_y), lower = std::min<int64_t>(y + 1, 5);
        for (int64_t i = 0; i < width * channels; ++i) {
          const float at_x = static_cast<float>(i / channels) * (8.0f / static_cast<float>(width));
          const int64_t x = static_cast<int64_t>(at_x), right = std::min<int64_t>(x + 1, 7), k = i % channels;
          const auto mix = [](float a, float b, float weight) { return a + (b - a) * weight; };
          const auto line = [&](const float* from) {
            return mix(from[x * channels + k], from[right * channels + k], at_x - static_cast<float>(x));
          };
          *to++ = mix(line(image + y * 8 * channels), line(image + lower * 8 * channels), at_y - static_cast<float>(y));
        }
      }
      ExpectTensor(got, expected, 1e-4);
    }
  }
}

TEST(ResizeTest, Gradients) {
  const std::vector<Tensor> xs = {Noise({1, 3, 4, 2})};
  for (const int n : {2, 5}) {
    const auto size = [n](const Scope& s) { return Const(s, {n, n}); };
    ExpectGradient([&](const Scope& s, const auto& x) { return ResizeBilinear(s, x[0], size(s)); }, xs, 1e-2);
    ExpectGradient([&](const Scope& s, const auto& x) { return ResizeBicubic(s, x[0], size(s)); }, xs, 1e-2);
    ExpectGradient([&](const Scope& s, const auto& x) { return ResizeNearestNeighbor(s, x[0], size(s)); }, xs, 1e-2);
  }
  // Boxes that do not cut through the middle of pixels, where there is a kink.
  const Tensor boxes = Tensor::Of<float>({2, 4}, {.12f, .21f, .63f, .84f, .07f, .13f, .91f, .52f});
  ExpectGradient(
      [&](const Scope& s, const auto& x) {
        return CropAndResize(s, x[0], Const(s, boxes), Const(s, {0, 0}), Const(s, {2, 3}));
      },
      xs, 1e-2);
}

TEST(ResizeTest, ScaleAndTranslate) {
  const auto run = [](const Tensor& images, const Tensor& size, float scale, float move,
                      const char* kind = "triangle") {
    return RunOp("ScaleAndTranslate",
                 {images, size, Tensor::Vector<float>({scale, scale}), Tensor::Vector<float>({move, move})},
                 {{"kernel_type", kind}});
  };
  const Tensor image = Noise({1, 3, 3, 2});
  ExpectTensor((*run(image, Ints({3, 3}), 1, 0))[0], image);
  EXPECT_FALSE(run(Noise({3, 3}), Ints({3, 3}), 1, 0).ok());
  EXPECT_FALSE(run(image, Ints({3, -1}), 1, 0).ok());
  EXPECT_FALSE(run(image, Ints({3}), 1, 0).ok());
  EXPECT_FALSE(run(image, Ints({3, 3}), 0, 0).ok());
  EXPECT_FALSE(run(image, Ints({3, 3}), NAN, 0).ok());
  EXPECT_FALSE(run(image, Ints({3, 3}), 1, 0, "cubist").ok());
  EXPECT_FALSE(run(Noise({100, 1, 1, 100}), Ints({INT32_MAX, INT32_MAX}), 1, 0).ok());
  EXPECT_TRUE(run(image, Ints({3, 3}), 1e-30f, NAN).ok());
  EXPECT_FALSE(RunOp("ScaleAndTranslateGrad",
                     {Noise({1, 2, 2, 1}), image, Tensor::Vector<float>({1, 1}), Tensor::Vector<float>({0, 0})})
                   .ok());
  ExpectGradient(
      [](const Scope& s, const auto& x) {
        return Output(
            s.Add("ScaleAndTranslate", {x[0], Const(s, {2, 5}), Const(s, {.7f, 1.6f}), Const(s, {0.f, .1f})}));
      },
      {image}, 1e-2);
}

TEST(CropAndResizeTest, BadInput) {
  const Tensor image = Noise({1, 3, 3, 1}), box = Tensor::Of<float>({1, 4}, {0, 0, 1, 1}), size = Ints({2, 2});
  ExpectTensor(Result("CropAndResize", {image, box, Ints({0}), Ints({3, 3})}), image);
  EXPECT_EQ(KernelError("CropAndResize", {image, box, Ints({1}), size}).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(KernelError("CropAndResize", {image, box, Ints({-1}), size}).code(), absl::StatusCode::kOutOfRange);
  ExpectInvalid(KernelError("CropAndResize", {image, Tensor::Of<float>({1, 4}, {0, NAN, 1, 1}), Ints({0}), size}),
                "Boxes contains at least one element that is not finite");
  ExpectInvalid(KernelError("CropAndResizeGradImage", {Noise({1, 2, 2, 1}), box, Ints({0}), Ints({1, -3, 3, 1})},
                            {{"T", kFloat}}),
                "");
}

TEST(ColorTest, Values) {
  Graph graph;
  const Scope s = graph.root();
  const Tensor image = Noise({2, 3, 3});
  const Output x = Const(s, image);
  const auto v =
      Values(s, {HsvToRgb(s, RgbToHsv(s, x)), AdjustHue(s, x, Const(s, 1.0f)), AdjustSaturation(s, x, Const(s, 1.0f)),
                 AdjustContrast(s, x, Const(s, 1.0f)), AdjustHue(s, x, Const(s, INFINITY))});
  for (int i = 0; i < 4; ++i) ExpectTensor(v[i], image, 1e-4);
  ExpectInvalid(KernelError("AdjustHue", {Noise({2, 3, 2}), Tensor::Scalar<float>(0)}), "input must have 3 channels");
  EXPECT_EQ(KernelError("RGBToHSV", {Noise({2})}).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(DrawBoxesTest, StaysInside) {
  const Tensor image = Tensor::Zeros(kFloat, {1, 3, 3, 1});
  ExpectTensor(Result("DrawBoundingBoxes", {image, Tensor::Of<float>({1, 1, 4}, {0, 0, 1, 1})}),
               Tensor::Of<float>({1, 3, 3, 1}, {1, 1, 1, 1, 0, 1, 1, 1, 1}));
  const float inf = INFINITY;
  for (const auto& box :
       {Tensor::Of<float>({1, 1, 4}, {-inf, -inf, inf, inf}), Tensor::Of<float>({1, 1, 4}, {2, 2, 3, 3}),
        Tensor::Of<float>({1, 1, 4}, {NAN, 0, 1, 1}), Tensor::Of<float>({1, 1, 4}, {1, 1, 0, 0})}) {
    ExpectTensor(Result("DrawBoundingBoxes", {image, box}), image);
  }
}

TEST(NonMaxSuppressionTest, Values) {
  const Tensor boxes = Tensor::Of<float>({3, 4}, {0, 0, 1, 1, 0, .1f, 1, 1.1f, 0, 10, 1, 11});
  const Tensor scores = FloatVector({.9f, .75f, .6f});
  ExpectTensor(Result("NonMaxSuppressionV2", {boxes, scores, Int(3), Tensor::Scalar<float>(.5f)}), Ints({0, 2}));
  ExpectTensor(
      Result("NonMaxSuppressionV4", {boxes, scores, Int(3), Tensor::Scalar<float>(.5f), Tensor::Scalar<float>(0)},
             {{"pad_to_max_output_size", true}}),
      Ints({0, 2, 0}));
  ExpectInvalid(KernelError("NonMaxSuppressionV2", {boxes, FloatVector({1}), Int(3), Tensor::Scalar<float>(.5f)}),
                "scores has incompatible shape");
}

TEST(ImageFilesTest, ComeBack) {
  const Tensor image = Bytes({5, 7, 3});
  ExpectTensor(Result("DecodePng", {Result("EncodePng", {image})}), image);
  const Tensor jpeg = Result("EncodeJpeg", {Tensor::Zeros(kUint8, {5, 7, 3})});
  ExpectTensor(Result("DecodeImage", {jpeg}), Tensor::Zeros(kUint8, {5, 7, 3}));
  ExpectTensor(Result("ExtractJpegShape", {jpeg}), Ints({5, 7, 3}));
  ExpectInvalid(KernelError("EncodeJpeg", {Bytes({2, 2, 2})}), "image must have 1 or 3 channels");
  EXPECT_FALSE(RunOp("EncodeJpeg", {Tensor(kUint8, {0, 2, 3})}).ok());
}

// Damaged files give pixels or an error, never a crash.
TEST(ImageFilesTest, Damage) {
  const Tensor image = Bytes({6, 5, 3});
  for (const char* op : {"EncodePng", "EncodeJpeg"}) {
    const std::string good = Result(op, {image}).scalar<std::string>();
    for (size_t i = 0; i < good.size(); i += 3) {
      for (const bool cut : {false, true}) {
        std::string bad = good.substr(0, cut ? i : good.size());
        if (!cut) bad[i] = static_cast<char>(~bad[i]);
        for (const bool recover : {false, true}) {
          const auto result =
              RunOp("DecodeJpeg", {Tensor::Scalar<std::string>(bad)}, {{"try_recover_truncated", recover}});
          EXPECT_TRUE(result.ok() || result.status().code() == absl::StatusCode::kInvalidArgument) << result.status();
        }
      }
    }
  }
}

}  // namespace
}  // namespace thalweg
