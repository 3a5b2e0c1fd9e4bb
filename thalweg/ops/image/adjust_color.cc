// SPDX-License-Identifier: Apache-2.0
// Colors of images, whose last dimension is red, green and blue (or, for the
// contrast, anything). AdjustContrastv2 moves every channel of an image away
// from its mean; AdjustHue turns the hue by a part of the circle;
// AdjustSaturation multiplies the saturation. RGBToHSV and HSVToRGB convert.
#include <cmath>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/image_ops.h"

namespace thalweg {
namespace {

// The type in which numbers of type T are computed.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename F>
void ToHsv(F r, F g, F b, F* h, F* s, F* v) {
  *v = std::max(r, std::max(g, b));
  const F range = *v - std::min(r, std::min(g, b));
  *s = *v > 0 ? range / *v : F(0);
  const F norm = F(1) / (F(6) * range);
  F hue = r == *v ? norm * (g - b) : g == *v ? norm * (b - r) + F(2) / F(6) : norm * (r - g) + F(4) / F(6);
  if (!(range > 0)) hue = 0;
  *h = hue < 0 ? hue + F(1) : hue;
}

template <typename F>
void ToRgb(F h, F s, F v, F* rgb) {
  const auto unit = [](F x) { return std::min(std::max(x, F(0)), F(1)); };
  const F dh = h * F(6);
  const F parts[3] = {unit(std::abs(dh - F(3)) - F(1)), unit(F(2) - std::abs(dh - F(2))),
                      unit(F(2) - std::abs(dh - F(4)))};
  for (int k = 0; k < 3; ++k) rgb[k] = (F(1) - s + s * parts[k]) * v;
}

// Calls f(pixel, result) for every pixel, in F.
template <typename F>
absl::Status ForEachPixel(KernelContext& c, F&& f) {
  const Tensor& images = c.input(0);
  ASSIGN_OR_RETURN(Tensor* const out, c.ForwardOrAllocate({0}, 0, images.shape()));
  return Dispatch(FloatTypes(), images.dtype(), [&]<typename T>() {
    const T* const from = images.data<T>();
    T* const to = out->mutable_data<T>();
    c.ParallelFor(images.num_elements() / 3, 10, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Wide<T> pixel[3] = {static_cast<Wide<T>>(from[3 * i]), static_cast<Wide<T>>(from[3 * i + 1]),
                                  static_cast<Wide<T>>(from[3 * i + 2])};
        Wide<T> result[3];
        f(pixel, result);
        for (int k = 0; k < 3; ++k) to[3 * i + k] = static_cast<T>(result[k]);
      }
    });
    return absl::OkStatus();
  });
}

absl::Status CheckConvertible(const Tensor& images) {
  if (images.rank() < 1) return InvalidArgument("input must be at least 1D", images.shape());
  const int64_t channels = images.dim(images.rank() - 1);
  if (channels == 3) return absl::OkStatus();
  return FailedPrecondition("input must have 3 channels but input only has ", channels, " channels.");
}

absl::Status ComputeRgbToHsv(KernelContext& c) {
  RETURN_IF_ERROR(CheckConvertible(c.input(0)));
  return ForEachPixel(c, []<typename F>(const F* p, F* q) { ToHsv(p[0], p[1], p[2], &q[0], &q[1], &q[2]); });
}

absl::Status ComputeHsvToRgb(KernelContext& c) {
  RETURN_IF_ERROR(CheckConvertible(c.input(0)));
  return ForEachPixel(c, []<typename F>(const F* p, F* q) { ToRgb(p[0], p[1], p[2], q); });
}

absl::Status CheckAdjustable(const KernelContext& c, absl::string_view argument) {
  const Tensor& images = c.input(0);
  if (images.rank() < 3) return InvalidArgument("input must be at least 3-D, got shape", images.shape());
  if (c.input(1).rank() != 0) return InvalidArgument(argument, " must be scalar: ", c.input(1).shape());
  return absl::OkStatus();
}

absl::Status CheckThreeChannels(const Tensor& images) {
  const int64_t channels = images.dim(images.rank() - 1);
  if (channels == 3) return absl::OkStatus();
  return InvalidArgument("input must have 3 channels but instead has ", channels, " channels.");
}

absl::Status ComputeHue(KernelContext& c) {
  RETURN_IF_ERROR(CheckAdjustable(c, "delta"));
  RETURN_IF_ERROR(CheckThreeChannels(c.input(0)));
  const float delta = c.input(1).scalar<float>();
  return ForEachPixel(c, [delta]<typename F>(const F* p, F* q) {
    // The range of the values stays as it is, whatever their sign.
    const F high = std::max(p[0], std::max(p[1], p[2])), low = std::min(p[0], std::min(p[1], p[2]));
    F h, s, v;
    ToHsv(p[0] - low, p[1] - low, p[2] - low, &h, &s, &v);
    h += F(delta);
    h -= std::floor(h);
    ToRgb(h, F(1), F(1), q);
    for (int k = 0; k < 3; ++k) q[k] = low + q[k] * (high - low);
  });
}

absl::Status ComputeSaturation(KernelContext& c) {
  RETURN_IF_ERROR(CheckAdjustable(c, "scale"));
  RETURN_IF_ERROR(CheckThreeChannels(c.input(0)));
  const float scale = c.input(1).scalar<float>();
  return ForEachPixel(c, [scale]<typename F>(const F* p, F* q) {
    F h, s, v;
    ToHsv(p[0], p[1], p[2], &h, &s, &v);
    ToRgb(h, std::min(F(1), std::max(F(0), s * F(scale))), v, q);
  });
}

absl::Status ComputeContrast(KernelContext& c) {
  RETURN_IF_ERROR(CheckAdjustable(c, "contrast_factor"));
  const Tensor& images = c.input(0);
  const float factor = c.input(1).scalar<float>();
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, images.shape()));
  if (images.num_elements() == 0) return absl::OkStatus();
  const int rank = images.rank();
  const int64_t pixels = images.dim(rank - 3) * images.dim(rank - 2), channels = images.dim(rank - 1);
  return Dispatch(Types<float, Half>(), images.dtype(), [&]<typename T>() {
    c.ParallelFor(images.num_elements() / (pixels * channels), 3.0 * pixels * channels,
                  [&](int64_t begin, int64_t end) {
                    for (int64_t b = begin; b < end; ++b) {
                      const T* const from = images.data<T>() + b * pixels * channels;
                      T* const to = out->mutable_data<T>() + b * pixels * channels;
                      std::vector<double> means(channels, 0);
                      for (int64_t i = 0; i < pixels * channels; ++i)
                        means[i % channels] += static_cast<double>(from[i]);
                      for (double& mean : means) mean /= static_cast<double>(pixels);
                      for (int64_t i = 0; i < pixels * channels; ++i) {
                        const float mean = static_cast<float>(means[i % channels]);
                        to[i] = static_cast<T>(mean + factor * (static_cast<float>(from[i]) - mean));
                      }
                    }
                  });
    return absl::OkStatus();
  });
}

absl::Status AdjustShape(ShapeContext& c) {
  if (c.input(0).has_rank() && c.input(0).rank() < 3) {
    return InvalidArgument("Shape must be at least rank 3 but is rank ", c.input(0).rank());
  }
  if (c.num_inputs() > 1) RETURN_IF_ERROR(c.RequireScalar(1));
  return shapes::LikeInput0(c);
}

absl::Status ConvertShape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  if (input.has_rank() && input.rank() < 1) return InvalidArgument("Shape must be at least rank 1 but is rank 0");
  if (input.has_rank() && input.dim(input.rank() - 1) >= 0 && input.dim(input.rank() - 1) != 3) {
    return InvalidArgument("Dimension must be 3 but is ", input.dim(input.rank() - 1));
  }
  return shapes::LikeInput0(c);
}

const OpRegistration kAdjustColorOps[] = {
    Op("AdjustContrastv2")
        .Input("images: T")
        .Input("contrast_factor: float")
        .Output("output: T")
        .Attr("T: {half, float} = DT_FLOAT")
        .Shape(AdjustShape)
        .Compute(ComputeContrast),
    Op("AdjustHue")
        .Input("images: T")
        .Input("delta: float")
        .Output("output: T")
        .Attr("T: {half, float} = DT_FLOAT")
        .Shape(AdjustShape)
        .Compute(ComputeHue),
    Op("AdjustSaturation")
        .Input("images: T")
        .Input("scale: float")
        .Output("output: T")
        .Attr("T: {half, float} = DT_FLOAT")
        .Shape(AdjustShape)
        .Compute(ComputeSaturation),
    Op("RGBToHSV")
        .Input("images: T")
        .Output("output: T")
        .Attr("T: {half, bfloat16, float, double} = DT_FLOAT")
        .Shape(ConvertShape)
        .Compute(ComputeRgbToHsv),
    Op("HSVToRGB")
        .Input("images: T")
        .Output("output: T")
        .Attr("T: {half, bfloat16, float, double} = DT_FLOAT")
        .Shape(ConvertShape)
        .Compute(ComputeHsvToRgb)
        .NotDifferentiable(),
};

}  // namespace

Output AdjustContrast(const Scope& s, Output images, Output contrast_factor) {
  return s.Add("AdjustContrastv2", {images, contrast_factor});
}
Output AdjustHue(const Scope& s, Output images, Output delta) { return s.Add("AdjustHue", {images, delta}); }
Output AdjustSaturation(const Scope& s, Output images, Output scale) {
  return s.Add("AdjustSaturation", {images, scale});
}
Output RgbToHsv(const Scope& s, Output images) { return s.Add("RGBToHSV", {images}); }
Output HsvToRgb(const Scope& s, Output images) { return s.Add("HSVToRGB", {images}); }

}  // namespace thalweg
