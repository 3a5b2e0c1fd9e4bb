// SPDX-License-Identifier: Apache-2.0
// Images and sounds in summaries, for TensorBoard.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "thalweg/proto/summary.pb.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Adds up to `max_images` of a batch of images [n, height, width, 1, 3 or 4] as PNG, under
// "<tag>/image" or, if max_images > 1, "<tag>/image/<number>". Pixels that are not finite get
// `bad_color`. REQUIRES: `bad_color` is a vector of uint8.
absl::Status AddImages(absl::string_view tag, const Tensor& images, const Tensor& bad_color, int64_t max_images,
                       tensorflow::Summary* summary);
// Adds up to `max_outputs` of a batch of sounds [n, frames] or [n, frames, channels] as 16-bit
// WAV under "<tag>/audio". REQUIRES: both tensors are of type float.
absl::Status AddSounds(absl::string_view tag, const Tensor& sounds, const Tensor& sample_rate, int64_t max_outputs,
                       tensorflow::Summary* summary);

}  // namespace thalweg
