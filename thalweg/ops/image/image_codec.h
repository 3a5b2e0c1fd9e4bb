// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes PNG, JPEG and BMP in memory. The C libraries report errors with longjmp;
// here they become statuses, whatever the input bytes are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace thalweg {

struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
  int channels = 0;  // 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA
};

// Pixels by row, channels together; borrowed.
struct ImageView {
  const void* pixels = nullptr;
  int64_t height = 0;
  int64_t width = 0;
  int channels = 0;
  int bits = 8;  // bits per channel: 8 or 16
};

// Allocates memory for the pixels once the size is known.
using PixelMemory = absl::FunctionRef<absl::StatusOr<void*>(const ImageSize& size)>;

// `compression` is 0 to 9, or -1 for the default.
absl::StatusOr<std::string> EncodePng(const ImageView& image, int compression);
// With `channels` 0, uses the channels of the file. `bits` is 8 or 16.
absl::Status DecodePng(absl::string_view bytes, int channels, int bits, PixelMemory memory);

struct JpegEncodeOptions {
  int quality = 95;
  bool progressive = false;
  bool optimize_size = false;
  bool chroma_downsampling = true;
  bool density_in_cm = false;
  int x_density = 300;
  int y_density = 300;
  std::string xmp_metadata;
};
// REQUIRES: 8 bits, 1 or 3 channels.
absl::StatusOr<std::string> EncodeJpeg(const ImageView& image, const JpegEncodeOptions& options);

struct CropWindow {
  int64_t y = 0;
  int64_t x = 0;
  int64_t height = 0;
  int64_t width = 0;
};
struct JpegDecodeOptions {
  int channels = 0;  // 0: the channels of the file
  int ratio = 1;     // downscaling factor: 1, 2, 4 or 8
  bool fancy_upscaling = true;
  bool try_recover_truncated = false;  // fill a truncated image with its last complete line
  float acceptable_fraction = 1;       // the fraction of the lines that must be present
  bool fast_dct = true;
  std::optional<CropWindow> crop;
};
absl::Status DecodeJpeg(absl::string_view bytes, const JpegDecodeOptions& options, PixelMemory memory);
absl::StatusOr<ImageSize> JpegSize(absl::string_view bytes);

absl::Status DecodeBmp(absl::string_view bytes, int channels, PixelMemory memory);

}  // namespace thalweg
