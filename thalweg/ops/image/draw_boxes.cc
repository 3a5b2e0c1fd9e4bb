// SPDX-License-Identifier: Apache-2.0
// DrawBoundingBoxes draws the outlines of boxes, [batch, boxes, (y_min, x_min,
// y_max, x_max)] as fractions of the image, in colors that repeat.
#include <cmath>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/image_ops.h"

namespace thalweg {
namespace {

using Color = std::vector<float>;

std::vector<Color> DefaultColors(int64_t depth) {
  std::vector<Color> colors = {{1, 1, 0, 1},   {0, 0, 1, 1},  {1, 0, 0, 1},  {0, 1, 0, 1}, {.5, 0, .5, 1},
                               {.5, .5, 0, 1}, {.5, 0, 0, 1}, {0, 0, .5, 1}, {0, 1, 1, 1}, {1, 0, 1, 1}};
  if (depth == 1) {
    for (Color& color : colors) color[0] = 1;
  }
  return colors;
}

// A fraction of a side as a pixel, which may lie far outside. NaN is outside.
int64_t PixelOf(float fraction, int64_t size) {
  const float place = fraction * static_cast<float>(size - 1);
  constexpr float kFar = 1e9f;
  if (!(place < kFar)) return static_cast<int64_t>(kFar);
  return static_cast<int64_t>(std::max(place, -kFar));
}

template <typename T>
void DrawBox(const float* box, const Color& color, const Shape& shape, T* image) {
  const int64_t height = shape.dim(1), width = shape.dim(2), depth = shape.dim(3);
  const int64_t top = PixelOf(box[0], height), left = PixelOf(box[1], width);
  const int64_t bottom = PixelOf(box[2], height), right = PixelOf(box[3], width);
  if (top > bottom || left > right || top >= height || bottom < 0 || left >= width || right < 0) return;
  const int64_t first_row = std::max<int64_t>(top, 0), last_row = std::min(bottom, height - 1);
  const int64_t first_column = std::max<int64_t>(left, 0), last_column = std::min(right, width - 1);
  const auto dot = [&](int64_t y, int64_t x) {
    for (int64_t k = 0; k < depth; ++k) image[(y * width + x) * depth + k] = static_cast<T>(color[k]);
  };
  for (const int64_t y : {top, bottom}) {
    for (int64_t x = first_column; y >= 0 && y < height && x <= last_column; ++x) dot(y, x);
  }
  for (const int64_t x : {left, right}) {
    for (int64_t y = first_row; x >= 0 && x < width && y <= last_row; ++y) dot(y, x);
  }
}

absl::Status ComputeDraw(KernelContext& c) {
  const Tensor& images = c.input(0);
  const Tensor& boxes = c.input(1);
  if (images.rank() != 4) return InvalidArgument("The rank of the images should be 4");
  if (boxes.rank() != 3) return InvalidArgument("The rank of the boxes tensor should be 3");
  if (images.dim(0) != boxes.dim(0)) return InvalidArgument("The batch sizes should be the same");
  const int64_t depth = images.dim(3);
  if (depth != 1 && depth != 3 && depth != 4) {
    return InvalidArgument("Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA)");
  }
  if (boxes.dim(2) != 4) {
    return InvalidArgument("The size of the third dimension of the box must be 4. Received: ", boxes.dim(2));
  }
  std::vector<Color> colors = DefaultColors(depth);
  if (c.num_inputs() == 3) {
    const Tensor& given = c.input(2);
    if (given.rank() != 2) return InvalidArgument("colors must be a 2-D matrix", given.shape());
    if (given.dim(1) < depth) {
      return InvalidArgument("colors must have equal or more channels than the image provided: ", given.shape());
    }
    if (given.num_elements() > 0) colors.clear();
    for (int64_t i = 0; given.num_elements() > 0 && i < given.dim(0); ++i) {
      const float* const row = given.data<float>() + i * given.dim(1);
      colors.emplace_back(row, row + depth);
    }
  }
  ASSIGN_OR_RETURN(Tensor out, images.TryClone(c.device().allocator()));
  const int64_t pixels = images.dim(1) * images.dim(2) * depth;
  RETURN_IF_ERROR(Dispatch(Types<float, Half>(), images.dtype(), [&]<typename T>() {
    for (int64_t b = 0; pixels > 0 && b < boxes.dim(0); ++b) {
      for (int64_t i = 0; i < boxes.dim(1); ++i) {
        DrawBox(boxes.data<float>() + (b * boxes.dim(1) + i) * 4, colors[i % colors.size()], images.shape(),
                out.mutable_data<T>() + b * pixels);
      }
    }
    return absl::OkStatus();
  }));
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status DrawShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.WithRank(0, 4).status());
  RETURN_IF_ERROR(c.WithRank(1, 3).status());
  return shapes::LikeInput0(c);
}

const OpRegistration kDrawBoxesOps[] = {
    Op("DrawBoundingBoxes")
        .Input("images: T")
        .Input("boxes: float")
        .Output("output: T")
        .Attr("T: {float, half} = DT_FLOAT")
        .Shape(DrawShape)
        .Compute(ComputeDraw)
        .NotDifferentiable(),
    Op("DrawBoundingBoxesV2")
        .Input("images: T")
        .Input("boxes: float")
        .Input("colors: float")
        .Output("output: T")
        .Attr("T: {float, half} = DT_FLOAT")
        .Shape(DrawShape)
        .Compute(ComputeDraw)
        .NotDifferentiable(),
};

}  // namespace

Output DrawBoundingBoxes(const Scope& s, Output images, Output boxes, Output colors) {
  return s.Add("DrawBoundingBoxesV2", {images, boxes, colors});
}

}  // namespace thalweg
