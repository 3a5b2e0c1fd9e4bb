// SPDX-License-Identifier: Apache-2.0
// Shared by the resizing ops: how positions of the new image map to the old one, and checks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/status/statusor.h"
#include "thalweg/graph/shape_context.h"
#include "thalweg/kernel/kernel.h"

namespace thalweg {

// The types of pixels that the resizing ops take.
using ImageTypes = Types<int8_t, uint8_t, int16_t, uint16_t, int32_t, int64_t, Half, float, double, BFloat16>;
inline constexpr char kImageTypes[] = "T: {int8, uint8, int16, uint16, int32, int64, half, float, double, bfloat16}";

struct ResizeMode {
  bool align_corners = false;       // corner pixels map to corner pixels
  bool half_pixel_centers = false;  // the center of pixel i is at i + 0.5, not at i
};

inline absl::StatusOr<ResizeMode> ReadResizeMode(const KernelInit& init) {
  ResizeMode mode;
  ASSIGN_OR_RETURN(mode.align_corners, init.Attr<bool>("align_corners"));
  if (HasAttr(init.node().def(), "half_pixel_centers")) {
    ASSIGN_OR_RETURN(mode.half_pixel_centers, init.Attr<bool>("half_pixel_centers"));
  }
  return mode;
}

// The scale of one dimension.
struct ResizeScale {
  int64_t in = 0;
  int64_t out = 0;
  float scale = 1;
  bool half_pixel = false;

  ResizeScale() = default;
  ResizeScale(int64_t in_size, int64_t out_size, const ResizeMode& mode)
      : in(in_size),
        out(out_size),
        scale(mode.align_corners && in_size > 1 && out_size > 1
                  ? static_cast<float>(in_size - 1) / static_cast<float>(out_size - 1)
                  : static_cast<float>(in_size) / static_cast<float>(out_size)),
        half_pixel(mode.half_pixel_centers) {}

  // The position in the old image of the center of pixel i of the new one.
  float operator()(int64_t i) const {
    return half_pixel ? (static_cast<float>(i) + 0.5f) * scale - 0.5f : static_cast<float>(i) * scale;
  }
};

// The two pixels of the old image between which a new pixel lies, and its distance from the
// first.
struct Lerp {
  int64_t low;
  int64_t high;
  float weight;
};
inline Lerp LerpAt(const ResizeScale& scale, int64_t i) {
  const float place = scale(i);
  const float floor = std::floor(place);
  // Rounding may place the last ones behind the end.
  return {std::clamp<int64_t>(static_cast<int64_t>(floor), 0, scale.in - 1),
          std::min<int64_t>(static_cast<int64_t>(std::ceil(place)), scale.in - 1), place - floor};
}

// Sizes of an image before and after.
struct ResizeShapes {
  int64_t batch = 0;
  int64_t channels = 0;
  ResizeScale y;
  ResizeScale x;
  Shape shape;  // shape of the output
};

// Reads the inputs of the ops: an image and its new size. INVALID_ARGUMENT, with TensorFlow's
// message, if they are invalid.
absl::StatusOr<ResizeShapes> ReadResize(const KernelContext& c, const ResizeMode& mode);
// The same for their gradients: the gradient of the new image, and height and width of the old
// one.
absl::StatusOr<ResizeShapes> ReadResizeGradient(const Tensor& gradient, int64_t height, int64_t width,
                                                const ResizeMode& mode);

// Shape functions: of the ops, and of gradients that take the old image.
absl::Status ResizeShape(ShapeContext& c);
absl::Status LikeInput1Shape(ShapeContext& c);

}  // namespace thalweg
