// SPDX-License-Identifier: Apache-2.0
// ExtractGlimpse, ExtractGlimpseV2: a window of each image around a place of its
// own. Where the window leaves the image it is filled with noise, or zeros.
#include <algorithm>
#include <cmath>
#include <string>

#include "thalweg/kernel/op.h"
#include "thalweg/kernel/philox.h"
#include "thalweg/ops/random/random_fill.h"

namespace thalweg {
namespace {

class GlimpseKernel final : public Kernel {
 public:
  explicit GlimpseKernel(int version) : version_(version) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(normalized_, init.Attr<bool>("normalized"));
    ASSIGN_OR_RETURN(centered_, init.Attr<bool>("centered"));
    ASSIGN_OR_RETURN(const bool uniform, init.Attr<bool>("uniform_noise"));
    ASSIGN_OR_RETURN(noise_, init.Attr<std::string>("noise"));
    if (uniform && !noise_.empty() && noise_ != "uniform") {
      return InvalidArgument("The uniform_noise and noise could not be specified at the same time");
    }
    if (noise_.empty()) noise_ = uniform ? "uniform" : "gaussian";
    if (noise_ != "uniform" && noise_ != "gaussian" && noise_ != "zero") {
      return InvalidArgument("The noise could only be uniform, gaussian, or zero, got", noise_);
    }
    generator_.Seed(0, 0);
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor &input = c.input(0), &size = c.input(1), &offsets = c.input(2);
    if (input.rank() != 4) {
      return InvalidArgument("input must be 4-dimensional (batch_size, height, width, depth)", input.shape());
    }
    if (size.rank() != 1 || size.dim(0) != 2) {
      return InvalidArgument("input must be a vector of size 2 (height, width)", size.shape());
    }
    if (offsets.rank() != 2) return InvalidArgument("input must be a matrix", offsets.shape());
    if (offsets.dim(0) != input.dim(0)) return InvalidArgument("first dimension should be batch", offsets.shape());
    if (offsets.dim(1) != 2) return InvalidArgument("second dimension should be of size 2 (y,x)", offsets.shape());
    const int64_t height = size.data<int32_t>()[0], width = size.data<int32_t>()[1];
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make({input.dim(0), height, width, input.dim(3)}));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    const int64_t in_image = input.num_elements() / input.dim(0), out_image = shape.num_elements() / input.dim(0);
    for (int64_t b = 0; b < input.dim(0); ++b) {
      const float* const offset = offsets.data<float>() + 2 * b;
      const int64_t top = Start(offset[0], input.dim(1), height), left = Start(offset[1], input.dim(2), width);
      const float* const from = input.data<float>() + b * in_image;
      float* const to = out->mutable_data<float>() + b * out_image;
      const bool inside = top >= 0 && left >= 0 && top + height < input.dim(1) && left + width < input.dim(2);
      if (!inside) FillNoise(from, in_image, input.dim(3), to, out_image);
      Copy(input.shape(), from, top, left, height, width, to);
    }
    return absl::OkStatus();
  }

 private:
  // Where the window starts in an image of `length` pixels.
  int64_t Start(float offset, int64_t length, int64_t window) const {
    const float pixels = static_cast<float>(length);
    if (normalized_) offset *= pixels;
    const bool halved = version_ == 1 || normalized_;
    if (centered_) offset = (halved ? offset / 2 : offset) + pixels / 2;
    // The first version takes offsets for the middle of the window, always.
    if (version_ == 1 || (centered_ && halved)) offset -= static_cast<float>(window) / 2;
    // NaN and what is far outside start where no pixel is.
    constexpr float kFar = 1 << 30;
    return offset > -kFar && offset < kFar ? static_cast<int64_t>(offset) : int64_t{1} << 30;
  }

  void FillNoise(const float* image, int64_t n, int64_t depth, float* to, int64_t count) {
    if (noise_ == "zero") return std::fill_n(to, count, 0.0f), void();
    PhiloxSingle next(generator_.Reserve(count / 2 + 1));
    if (noise_ == "uniform") {
      for (int64_t i = 0; i < count; ++i) to[i] = UnitFloat(next());
      return;
    }
    for (int64_t d = 0; d < depth; ++d) {  // white noise with the mean and deviation of the channel
      double sum = 0, squares = 0;
      for (int64_t i = d; i < n; i += depth) sum += image[i];
      const double mean = n > 0 ? sum / (static_cast<double>(n) / static_cast<double>(depth)) : 0;
      for (int64_t i = d; i < n; i += depth) squares += (image[i] - mean) * (image[i] - mean);
      const double deviation = n > 0 ? std::sqrt(squares / (static_cast<double>(n) / static_cast<double>(depth))) : 0;
      for (int64_t i = d; i < count; i += depth) {
        float pair[2];
        const uint32_t x0 = next(), x1 = next();
        BoxMuller(x0, x1, &pair[0], &pair[1]);
        to[i] = static_cast<float>(mean + deviation * pair[0]);
      }
    }
  }

  static void Copy(const Shape& image, const float* from, int64_t top, int64_t left, int64_t height, int64_t width,
                   float* to) {
    const int64_t depth = image.dim(3);
    const int64_t first = std::max<int64_t>(0, -left), last = std::min(width, image.dim(2) - left);
    if (first >= last) return;
    for (int64_t y = std::max<int64_t>(0, -top); y < std::min(height, image.dim(1) - top); ++y) {
      std::copy_n(from + ((top + y) * image.dim(2) + left + first) * depth, (last - first) * depth,
                  to + (y * width + first) * depth);
    }
  }

  const int version_;
  bool normalized_ = true, centered_ = true;
  std::string noise_;
  SharedPhilox generator_;
};

absl::Status GlimpseShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape input, c.WithRank(0, 4));
  ASSIGN_OR_RETURN(const PartialShape offsets, c.WithRank(2, 2));
  ASSIGN_OR_RETURN(const PartialShape size, c.ConstantAsShape(1));
  if (size.has_rank() && size.rank() != 2) return InvalidArgument("size must have two elements, got ", size.rank());
  const int64_t batch = input.dim(0) >= 0 ? input.dim(0) : offsets.dim(0);
  c.set_output(0, PartialShape({batch, size.has_rank() ? size.dim(0) : PartialShape::kUnknown,
                                size.has_rank() ? size.dim(1) : PartialShape::kUnknown, input.dim(3)}));
  return absl::OkStatus();
}

Op Glimpse(absl::string_view name, int version) {
  return Op(name)
      .Input("input: float")
      .Input("size: int32")
      .Input("offsets: float")
      .Output("glimpse: float")
      .Attr("centered: bool = true")
      .Attr("normalized: bool = true")
      .Attr("uniform_noise: bool = true")
      .Attr("noise: string = 'uniform'")
      .Shape(GlimpseShape)
      .Kernel<GlimpseKernel>(version)
      .NotDifferentiable();
}

const OpRegistration kExtractGlimpseOps[] = {Glimpse("ExtractGlimpse", 1), Glimpse("ExtractGlimpseV2", 2)};

}  // namespace
}  // namespace thalweg
