// SPDX-License-Identifier: Apache-2.0
#include "thalweg/data/cifar10.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "thalweg/base/status.h"

namespace thalweg::data {
namespace {

// In [0, 1).
double Uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

// To mean 0 and deviation 1, but for images of one colour.
void Standardize(absl::Span<float> pixels) {
  double sum = 0, squares = 0;
  for (const float p : pixels) {
    sum += p;
    squares += static_cast<double>(p) * p;
  }
  const double n = static_cast<double>(pixels.size()), mean = sum / n;
  const double deviation = std::max(std::sqrt(std::max(squares / n - mean * mean, 0.0)), 1 / std::sqrt(n));
  for (float& p : pixels) p = static_cast<float>((p - mean) / deviation);
}

// (p + brightness - mean) * contrast + mean, with the mean of each channel.
void ChangeLight(absl::Span<float> pixels, double brightness, double contrast) {
  for (int c = 0; c < 3; ++c) {
    double sum = 0;
    for (size_t i = c; i < pixels.size(); i += 3) sum += pixels[i];
    const double mean = sum / (static_cast<double>(pixels.size()) / 3);
    for (size_t i = c; i < pixels.size(); i += 3) {
      pixels[i] = static_cast<float>((pixels[i] - mean) * contrast + mean + brightness);
    }
  }
}

}  // namespace

Decoder DecodeCifar10(const Cifar10Decoding& options) {
  return [options](const Record& record) -> absl::StatusOr<Tensors> {
    constexpr int kSize = kCifar10Size;
    if (record.bytes.size() != kCifar10RecordBytes) {
      return InvalidArgument("expected ", kCifar10RecordBytes, " bytes, got ", record.bytes.size());
    }
    const int label = static_cast<uint8_t>(record.bytes[0]);
    if (label >= kCifar10Classes) return DataLoss("expected a class from 0 to 9, got ", label);
    const int crop = options.crop;
    if (crop < 1 || crop > kSize) return InvalidArgument("expected a crop from 1 to 32, got ", crop);
    int top = (kSize - crop) / 2, left = top;
    bool mirror = false;
    std::mt19937_64 random(record.seed);
    if (options.distort) {
      top = static_cast<int>(random() % (kSize - crop + 1));
      left = static_cast<int>(random() % (kSize - crop + 1));
      mirror = (random() & 1) != 0;
    }
    Tensor image(kFloat, {crop, crop, 3});
    float* out = image.mutable_data<float>();
    const auto* const planes = reinterpret_cast<const uint8_t*>(record.bytes.data()) + 1;
    for (int y = 0; y < crop; ++y) {
      for (int x = 0; x < crop; ++x) {
        const int from = (top + y) * kSize + left + (mirror ? crop - 1 - x : x);
        for (int c = 0; c < 3; ++c) *out++ = planes[c * kSize * kSize + from];
      }
    }
    if (options.distort) {
      const double brightness = 63 * (2 * Uniform(random) - 1), contrast = 0.2 + 1.6 * Uniform(random);
      ChangeLight(image.flat<float>(), brightness, contrast);
    }
    Standardize(image.flat<float>());
    return Tensors{image, Tensor::Scalar<int32_t>(label)};
  };
}

absl::StatusOr<Pipeline> Cifar10(const std::string& folder, const Cifar10Options& options) {
  PipelineOptions o{.format = FixedLengthRecords(kCifar10RecordBytes),
                    .decode = DecodeCifar10({.distort = options.train}),
                    .batch_size = options.batch_size,
                    .shuffle = options.train ? 20000 : 0,
                    .seed = options.seed,
                    .epochs = options.train ? 0 : 1,
                    .shard = options.shard,
                    .num_shards = options.num_shards,
                    .threads = options.threads,
                    .file_system = options.file_system};
  if (options.train) {
    for (int i = 1; i <= 5; ++i) o.files.push_back(absl::StrCat(folder, "/data_batch_", i, ".bin"));
  } else {
    o.files.push_back(absl::StrCat(folder, "/test_batch.bin"));
  }
  for (const std::string& file : o.files) RETURN_IF_ERROR(o.file_system->FileExists(file));
  return Pipeline(std::move(o));
}

}  // namespace thalweg::data
