// SPDX-License-Identifier: Apache-2.0
// ImageProjectiveTransform (of tf.contrib), V2, V3: output pixel (x, y) is the input's at
//
//   ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k)  with k = c0 x + c1 y + 1
//
// by the nearest pixel or by bilinear interpolation. The fill mode says which
// pixels are outside of the image.
#include <algorithm>
#include <cmath>
#include <string>

#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

enum class FillMode { kReflect, kWrap, kConstant, kNearest };

// The coordinate inside of an image of `length` pixels that stands for this one;
// scipy.ndimage has the same modes.
float Inside(FillMode mode, float at, int64_t length) {
  const float last = static_cast<float>(length - 1);
  const auto whole = [](float x) { return static_cast<float>(std::trunc(x)); };
  if (mode == FillMode::kConstant) return at;
  if (length <= 1 && (at < 0 || at > last)) return 0;
  const float size = static_cast<float>(length), twice = 2 * size;
  if (mode == FillMode::kReflect) {  // dcba|abcd|dcba
    if (at < 0) {
      at += twice * whole(-at / twice);
      at = at < -size ? at + twice : -at - 1;
    } else if (at > last) {
      at -= twice * whole(at / twice);
      if (at >= size) at = twice - at - 1;
    }
  } else if (mode == FillMode::kWrap) {  // abcd|abcd|abcd
    if (at < 0) {
      at += size * (whole(-at / last) + 1);
    } else if (at > last) {
      at -= size * whole(at / last);
    }
  }
  return std::min(std::max(at, 0.0f), last);
}

template <typename T>
struct Image {
  const T* data;
  int64_t height, width, channels;
  T fill;

  // The pixel at whole coordinates; nullptr outside of the image, also for NaN.
  const T* Pixel(float y, float x) const {
    constexpr float kFar = 1e15f;
    if (!(y >= 0 && y < kFar && x >= 0 && x < kFar)) return nullptr;
    const auto row = static_cast<int64_t>(y), column = static_cast<int64_t>(x);
    return row < height && column < width ? data + (row * width + column) * channels : nullptr;
  }
  float At(float y, float x, int64_t channel) const {
    const T* const pixel = Pixel(y, x);
    return static_cast<float>(pixel == nullptr ? fill : pixel[channel]);
  }
  T Nearest(float y, float x, int64_t channel) const {
    const T* const pixel = Pixel(std::round(y), std::round(x));
    return pixel == nullptr ? fill : pixel[channel];
  }
  T Bilinear(float y, float x, int64_t channel) const {
    const float top = std::floor(y), left = std::floor(x), bottom = top + 1, right = left + 1;
    const float upper = (right - x) * At(top, left, channel) + (x - left) * At(top, right, channel);
    const float lower = (right - x) * At(bottom, left, channel) + (x - left) * At(bottom, right, channel);
    const float value = (bottom - y) * upper + (y - top) * lower;
    if constexpr (std::is_integral_v<T>) {  // infinite coordinates give NaN
      if (!(std::abs(value) < 9.2e18f)) return T(0);
      return static_cast<T>(static_cast<int64_t>(value));
    } else {
      return T(value);
    }
  }
};

class ProjectiveTransformKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const std::string interpolation, init.Attr<std::string>("interpolation"));
    if (interpolation != "NEAREST" && interpolation != "BILINEAR") {
      return InvalidArgument("Invalid interpolation ", interpolation, ". Supported types: NEAREST, BILINEAR");
    }
    bilinear_ = interpolation == "BILINEAR";
    if (!HasAttr(init.node().def(), "fill_mode")) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::string mode, init.Attr<std::string>("fill_mode"));
    if (mode == "REFLECT") {
      mode_ = FillMode::kReflect;
    } else if (mode == "WRAP") {
      mode_ = FillMode::kWrap;
    } else if (mode == "CONSTANT") {
      mode_ = FillMode::kConstant;
    } else if (mode == "NEAREST") {
      mode_ = FillMode::kNearest;
    } else {
      return InvalidArgument("Invalid mode ", mode, ". Supported types: REFLECT, WRAP, CONSTANT, NEAREST");
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor &images = c.input(0), &transforms = c.input(1);
    if (images.rank() != 4) return InvalidArgument("Input images must have rank 4");
    if (transforms.rank() != 2 || (transforms.dim(0) != images.dim(0) && transforms.dim(0) != 1) ||
        transforms.dim(1) != 8) {
      return InvalidArgument("Input transform should be num_images x 8 or 1 x 8");
    }
    int64_t height = images.dim(1), width = images.dim(2);
    if (c.num_inputs() > 2) {
      const Tensor& size = c.input(2);
      if (size.rank() != 1) return InvalidArgument("output shape must be 1-dimensional", size.shape());
      if (size.num_elements() != 2) return InvalidArgument("output shape must have two elements", size.shape());
      height = size.data<int32_t>()[0];
      width = size.data<int32_t>()[1];
      if (height <= 0 || width <= 0) {
        return InvalidArgument("output dimensions must be positive", height, ", ", width);
      }
    }
    float fill = 0;
    if (c.num_inputs() > 3) {
      if (c.input(3).rank() != 0) return InvalidArgument("fill_value must be a scalar", c.input(3).shape());
      fill = c.input(3).scalar<float>();
    }
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make({images.dim(0), height, width, images.dim(3)}));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    if (images.num_elements() == 0 && shape.num_elements() > 0) {
      return InvalidArgument("Input images must not be empty, got ", images.shape());
    }
    if (shape.num_elements() == 0) return absl::OkStatus();  // a batch may be huge and empty
    return Dispatch(Types<uint8_t, int32_t, int64_t, Half, float, double>(), images.dtype(), [&]<typename T>() {
      c.ParallelFor(images.dim(0) * height, 20.0 * static_cast<double>(width * images.dim(3)),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t row = begin; row < end; ++row) {
                        TransformRow<T>(images, transforms, fill, row / height, row % height, *out);
                      }
                    });
      return absl::OkStatus();
    });
  }

 private:
  template <typename T>
  void TransformRow(const Tensor& images, const Tensor& transforms, float fill, int64_t b, int64_t y,
                    Tensor& out) const {
    const int64_t height = images.dim(1), width = images.dim(2), channels = images.dim(3), out_width = out.dim(2);
    const Image<T> image{images.data<T>() + b * height * width * channels, height, width, channels, T(fill)};
    const float* const t = transforms.data<float>() + (transforms.dim(0) == 1 ? 0 : 8 * b);
    T* to = out.mutable_data<T>() + (b * out.dim(1) + y) * out_width * channels;
    const float fy = static_cast<float>(y);
    for (int64_t x = 0; x < out_width; ++x, to += channels) {
      const float fx = static_cast<float>(x), k = t[6] * fx + t[7] * fy + 1.0f;
      if (k == 0) {  // infinitely far away
        std::fill_n(to, channels, image.fill);
        continue;
      }
      const float in_x = Inside(mode_, (t[0] * fx + t[1] * fy + t[2]) / k, width);
      const float in_y = Inside(mode_, (t[3] * fx + t[4] * fy + t[5]) / k, height);
      for (int64_t d = 0; d < channels; ++d) {
        to[d] = bilinear_ ? image.Bilinear(in_y, in_x, d) : image.Nearest(in_y, in_x, d);
      }
    }
  }

  bool bilinear_ = false;
  FillMode mode_ = FillMode::kConstant;
};

absl::Status TransformShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape images, c.WithRank(0, 4));
  ASSIGN_OR_RETURN(const PartialShape size, c.ConstantAsShape(2));
  if (size.has_rank() && size.rank() != 2) return InvalidArgument("output shape must have two elements");
  c.set_output(0, PartialShape({images.dim(0), size.has_rank() ? size.dim(0) : PartialShape::kUnknown,
                                size.has_rank() ? size.dim(1) : PartialShape::kUnknown, images.dim(3)}));
  return absl::OkStatus();
}

Op Transform(absl::string_view name, bool has_fill) {
  Op op(name);
  op.Input("images: dtype").Input("transforms: float").Input("output_shape: int32");
  if (has_fill) op.Input("fill_value: float");
  return op.Output("transformed_images: dtype")
      .Attr("dtype: {uint8, int32, int64, half, float, double}")
      .Attr("interpolation: string")
      .Attr("fill_mode: string = 'CONSTANT'")
      .Shape(TransformShape)
      .Kernel<ProjectiveTransformKernel>()
      .NotDifferentiable();
}

const OpRegistration kProjectiveTransformOps[] = {
    Op("ImageProjectiveTransform")
        .Input("images: dtype")
        .Input("transforms: float")
        .Output("transformed_images: dtype")
        .Attr("dtype: {uint8, int32, int64, half, float, double}")
        .Attr("interpolation: string")
        .Shape(shapes::LikeInput0)
        .Kernel<ProjectiveTransformKernel>()
        .NotDifferentiable(),
    Transform("ImageProjectiveTransformV2", false),
    Transform("ImageProjectiveTransformV3", true),
};

}  // namespace
}  // namespace thalweg
