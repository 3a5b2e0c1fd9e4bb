// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "thalweg/kernel/summary_scalars.h"
#include "thalweg/ops/image/image_codec.h"
#include "thalweg/ops/io_ops.h"
#include "thalweg/ops/support/array_ops_testlib.h"
#include "thalweg/proto/summary.pb.h"

namespace thalweg {
namespace {

tensorflow::Summary Parse(const Tensor& text) {
  tensorflow::Summary summary;
  EXPECT_TRUE(summary.ParseFromString(text.scalar<std::string>()));
  return summary;
}

TEST(SummaryTest, ScalarsAndMerge) {
  Graph graph;
  const Scope s = graph.root();
  const Output a = ScalarSummary(s, Const(s, "a"), Const(s, 2));
  const Output b = HistogramSummary(s, Const(s, "b"), Const(s, {1.0f, 1.0f, -3.0f}));
  const tensorflow::Summary merged = Parse(Values(s, {MergeSummary(s, {a, b})})[0]);
  ASSERT_EQ(merged.value_size(), 2);
  EXPECT_EQ(merged.value(0).tag(), "a");
  EXPECT_EQ(merged.value(0).simple_value(), 2);
  const tensorflow::HistogramProto& histogram = merged.value(1).histo();
  EXPECT_EQ(histogram.num(), 3);
  EXPECT_EQ(histogram.min(), -3);
  double total = 0;
  for (int i = 0; i < histogram.bucket_size(); ++i) {
    total += histogram.bucket(i);
    EXPECT_TRUE(histogram.bucket(i) != 2 || histogram.bucket_limit(i) > 1);
  }
  EXPECT_EQ(total, 3);
  const Tensor one = Values(s, {a})[0];
  ExpectInvalid(KernelError("MergeSummary", {std::vector<Tensor>{one, one}}), "Duplicate tag a found");
  ExpectInvalid(KernelError("ScalarSummary", {Strings({"a", "b"}), Int(1)}), "tags and values are not the same shape");
  ExpectInvalid(KernelError("HistogramSummary", {Tensor::Scalar<std::string>("h"), FloatVector({NAN})}),
                "Nan in summary histogram for: ");
}

TEST(SummaryTest, ScalarsAreKeptForTheStatusOfTheTask) {
  SummaryScalars scalars;
  scalars.Set("loss", 2);
  scalars.Set("loss", 1);
  scalars.Set(std::string(1000, 'a'), 1);
  for (int i = 0; i < 1000; ++i) scalars.Set(absl::StrCat("tag", i), i);
  const auto taken = scalars.Take();
  EXPECT_EQ(taken.size(), 100);  // bounded
  EXPECT_EQ(taken[0], std::make_pair(std::string("loss"), 1.0));
  EXPECT_TRUE(scalars.Take().empty());
}

TEST(SummaryTest, Images) {
  const Tensor tag = Tensor::Scalar<std::string>("i");
  const float bad = INFINITY;
  const Tensor images = Tensor::Of<float>({2, 1, 3, 1}, {0, 1, 2, -1, bad, 1});
  const tensorflow::Summary summary = Parse(Result("ImageSummary", {tag, images}));
  ASSERT_EQ(summary.value_size(), 2);
  const std::vector<std::vector<uint8_t>> expected = {{0, 127, 255}, {1, 255, 255}};
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(summary.value(i).tag(), absl::StrCat("i/image/", i));
    EXPECT_EQ(summary.value(i).image().width(), 3);
    std::vector<uint8_t> pixels(3);
    ASSERT_TRUE(DecodePng(summary.value(i).image().encoded_image_string(), 0, 8, [&](const ImageSize& size) {
                  EXPECT_EQ(size.channels, 1);
                  return absl::StatusOr<void*>(pixels.data());
                }).ok());
    EXPECT_EQ(pixels, expected[i]);
  }
  ExpectInvalid(KernelError("ImageSummary", {tag, Tensor(kFloat, {1, 2, 2, 2})}), "Tensor must be 4-D");
}

TEST(SummaryTest, Sounds) {
  const tensorflow::Summary summary = Parse(
      Result("AudioSummaryV2",
             {Tensor::Scalar<std::string>("s"), Tensor::Of<float>({1, 2}, {0.5, -2}), Tensor::Scalar<float>(8000)},
             {{"max_outputs", 1}}));
  EXPECT_EQ(summary.value(0).tag(), "s/audio");
  const std::string& wav = summary.value(0).audio().encoded_audio_string();
  EXPECT_EQ(wav.size(), 48);
  EXPECT_EQ(wav.substr(44), std::string("\x00\x40\x00\x80", 4));
}

}  // namespace
}  // namespace thalweg
