// GIF files: a canvas, and frames of up to 256 colours that are painted on it
// one after the other, their pixels compressed by LZW.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace thalweg {

// Gives memory for frames * height * width pixels of three bytes.
using FrameMemory = absl::FunctionRef<absl::StatusOr<uint8_t*>(int64_t frames, int64_t height, int64_t width)>;

// Paints the frames of a file, or only the first of them. As in TensorFlow, the
// canvas is black and as large as the largest frame, a frame leaves what it
// covers to the next one whatever the file says of its disposal, and of a file
// that is cut off or damaged those frames count that are whole.
// INVALID_ARGUMENT if there is none.
absl::Status DecodeGif(absl::string_view bytes, bool all_frames, FrameMemory memory);

}  // namespace thalweg
