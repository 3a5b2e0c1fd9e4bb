// SPDX-License-Identifier: Apache-2.0
// GIF files: a canvas, and frames of up to 256 colours that are painted on it one after the
// other. Their pixels are compressed with LZW.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace thalweg {

// Allocates memory for frames * height * width pixels of three bytes.
using FrameMemory = absl::FunctionRef<absl::StatusOr<uint8_t*>(int64_t frames, int64_t height, int64_t width)>;

// Decodes all frames of a file, or only the first. As in TensorFlow, the canvas is black and as
// large as the largest frame, disposal methods are ignored, and the complete frames of a
// truncated or damaged file are used. INVALID_ARGUMENT if there is no complete frame.
absl::Status DecodeGif(absl::string_view bytes, bool all_frames, FrameMemory memory);

}  // namespace thalweg
