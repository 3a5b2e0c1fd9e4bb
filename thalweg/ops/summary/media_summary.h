// Images and sounds in summaries, for TensorBoard.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "thalweg/proto/summary.pb.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// The first few of a batch of images [n, height, width, 1, 3 or 4], as PNG under
// "<tag>/image" or, if several are asked for, "<tag>/image/<number>". Pixels
// that are not finite get the bad color. REQUIRES: that is a vector of uint8.
absl::Status AddImages(absl::string_view tag, const Tensor& images, const Tensor& bad_color, int64_t max_images,
                       tensorflow::Summary* summary);
// Of a batch of sounds [n, frames] or [n, frames, channels], as WAV of 16 bits
// under "<tag>/audio". REQUIRES: both are of type float.
absl::Status AddSounds(absl::string_view tag, const Tensor& sounds, const Tensor& sample_rate, int64_t max_outputs,
                       tensorflow::Summary* summary);

}  // namespace thalweg
