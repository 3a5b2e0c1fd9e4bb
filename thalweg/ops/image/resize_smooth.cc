// SPDX-License-Identifier: Apache-2.0
// ResizeBicubic: a pixel of the new image is a mean of the 4 x 4 that surround
// its place in the old one, weighted by a cubic (Keys, 1981). ResizeArea: of all
// that it covers, by how much of them. ResizeBicubicGrad is the gradient of the
// first.
#include <array>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/image/image_scale.h"
#include "thalweg/ops/image_ops.h"

namespace thalweg {
namespace {

int64_t Bound(int64_t i, int64_t limit) { return std::clamp<int64_t>(i, 0, limit - 1); }

// Four pixels of the old image along one dimension, and their weights.
struct Cubic {
  std::array<int64_t, 4> places;
  std::array<float, 4> weights;
};

// The cubic, tabulated: TensorFlow's results have this resolution.
constexpr int kTableSize = 1 << 10;
class CubicTable {
 public:
  explicit CubicTable(double a) {
    for (int i = 0; i <= kTableSize; ++i) {
      float x = static_cast<float>(i * 1.0 / kTableSize);
      near_[i] = static_cast<float>(((a + 2) * x - (a + 3)) * x * x + 1);
      x += 1.0f;
      far_[i] = static_cast<float>(((a * x - 5 * a) * x + 8 * a) * x - 4 * a);
    }
  }
  // Weights of the pixels at distance i / kTableSize and one more.
  float near(int64_t i) const { return near_[i]; }
  float far(int64_t i) const { return far_[i]; }

 private:
  std::array<float, kTableSize + 1> near_, far_;
};

// With half pixels, what lies outside of the image has no weight; without, the
// edge is repeated.
std::vector<Cubic> Cubics(const ResizeScale& scale) {
  static const CubicTable& keys = *new CubicTable(-0.5);
  static const CubicTable& legacy = *new CubicTable(-0.75);
  const CubicTable& table = scale.half_pixel ? keys : legacy;
  std::vector<Cubic> cubics;
  for (int64_t i = 0; i < scale.out; ++i) {
    const float place = scale(i);
    const int64_t whole = static_cast<int64_t>(std::floor(place));
    const int64_t offset = std::lrint((place - static_cast<float>(whole)) * kTableSize);
    Cubic cubic;
    cubic.weights = {table.far(offset), table.near(offset), table.near(kTableSize - offset),
                     table.far(kTableSize - offset)};
    float sum = 0;
    for (int k = 0; k < 4; ++k) {
      cubic.places[k] = Bound(whole - 1 + k, scale.in);
      if (scale.half_pixel && cubic.places[k] != whole - 1 + k) cubic.weights[k] = 0;
      sum += cubic.weights[k];
    }
    if (scale.half_pixel && std::abs(sum) >= 1000.0f * std::numeric_limits<float>::min()) {
      for (float& weight : cubic.weights) weight *= 1.0f / sum;
    }
    cubics.push_back(cubic);
  }
  return cubics;
}

class BicubicKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(mode_, ReadResizeMode(init));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const ResizeShapes r, ReadResize(c, mode_));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, r.shape));
    const std::vector<Cubic> ys = Cubics(r.y), xs = Cubics(r.x);
    const int64_t in_row = r.x.in * r.channels, out_row = r.x.out * r.channels;
    return Dispatch(ImageTypes(), c.input(0).dtype(), [&]<typename T>() {
      c.ParallelFor(r.batch * r.y.out, 16.0 * out_row, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const Cubic& y = ys[row % r.y.out];
          const T* const image = c.input(0).data<T>() + row / r.y.out * r.y.in * in_row;
          float* to = out->mutable_data<float>() + row * out_row;
          for (const Cubic& x : xs) {
            for (int64_t k = 0; k < r.channels; ++k) {
              float sum = 0;
              for (int j = 0; j < 4; ++j) {
                float column = 0;
                for (int i = 0; i < 4; ++i) {
                  const T pixel = image[y.places[i] * in_row + x.places[j] * r.channels + k];
                  column += static_cast<float>(pixel) * y.weights[i];
                }
                sum += column * x.weights[j];
              }
              *to++ = sum;
            }
          }
        }
      });
      return absl::OkStatus();
    });
  }

 private:
  ResizeMode mode_;
};

class BicubicGradKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(mode_, ReadResizeMode(init));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& gradient = c.input(0);
    const Tensor& original = c.input(1);
    if (original.rank() != 4) return InvalidArgument("original_image must be 4-dimensional", original.shape());
    ASSIGN_OR_RETURN(const ResizeShapes r, ReadResizeGradient(gradient, original.dim(1), original.dim(2), mode_));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, r.shape));
    if (out->num_elements() == 0) return absl::OkStatus();  // images of nothing may be many
    const std::vector<Cubic> ys = Cubics(r.y), xs = Cubics(r.x);
    return Dispatch(Types<float, double>(), out->dtype(), [&]<typename T>() {
      const float* from = gradient.data<float>();
      T* const to = out->mutable_data<T>();
      std::fill_n(to, out->num_elements(), T(0));
      for (int64_t b = 0; b < r.batch; ++b) {
        for (const Cubic& y : ys) {
          for (const Cubic& x : xs) {
            for (int64_t k = 0; k < r.channels; ++k) {
              const T g = static_cast<T>(*from++);
              for (int i = 0; i < 4; ++i) {
                for (int j = 0; j < 4; ++j) {
                  to[((b * r.y.in + y.places[i]) * r.x.in + x.places[j]) * r.channels + k] +=
                      g * static_cast<T>(y.weights[i]) * static_cast<T>(x.weights[j]);
                }
              }
            }
          }
        }
      }
      return absl::OkStatus();
    });
  }

 private:
  ResizeMode mode_;
};

// The pixels that a new one covers along one dimension, and how much of each.
struct Cover {
  int64_t first = 0;  // may lie outside of the image: then the edge counts
  std::vector<float> weights;
};
std::vector<Cover> Covers(const ResizeScale& scale) {
  std::vector<Cover> covers;
  for (int64_t i = 0; i < scale.out; ++i) {
    const float begin = static_cast<float>(i) * scale.scale, end = static_cast<float>(i + 1) * scale.scale;
    Cover cover{.first = static_cast<int64_t>(std::floor(begin))};
    const int64_t last = static_cast<int64_t>(std::ceil(end));
    for (int64_t p = cover.first; p < last; ++p) {
      const float at = static_cast<float>(p), next = static_cast<float>(p + 1);
      cover.weights.push_back(at < begin ? (next > end ? scale.scale : next - begin) : (next > end ? end - at : 1.0f));
    }
    covers.push_back(std::move(cover));
  }
  return covers;
}

class AreaKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(mode_, ReadResizeMode(init));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const ResizeShapes r, ReadResize(c, mode_));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, r.shape));
    const std::vector<Cover> ys = Covers(r.y), xs = Covers(r.x);
    const int64_t in_row = r.x.in * r.channels, out_row = r.x.out * r.channels;
    const float scale = static_cast<float>(1.0 / (r.y.scale * r.x.scale));
    return Dispatch(ImageTypes(), c.input(0).dtype(), [&]<typename T>() {
      c.ParallelFor(r.batch * r.y.out, 4.0 * out_row, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const Cover& y = ys[row % r.y.out];
          const T* const image = c.input(0).data<T>() + row / r.y.out * r.y.in * in_row;
          float* to = out->mutable_data<float>() + row * out_row;
          for (const Cover& x : xs) {
            for (int64_t k = 0; k < r.channels; ++k) {
              float sum = 0;
              for (size_t i = 0; i < y.weights.size(); ++i) {
                const T* const line = image + Bound(y.first + static_cast<int64_t>(i), r.y.in) * in_row + k;
                float part = 0;
                for (size_t j = 0; j < x.weights.size(); ++j) {
                  part += static_cast<float>(line[Bound(x.first + static_cast<int64_t>(j), r.x.in) * r.channels]) *
                          x.weights[j];
                }
                sum += part * y.weights[i];
              }
              *to++ = sum * scale;
            }
          }
        }
      });
      return absl::OkStatus();
    });
  }

 private:
  ResizeMode mode_;
};

absl::Status BicubicGradient(GradientContext& c) {
  const DType dtype = c.node()->input_type(0);
  if (dtype != kFloat && dtype != kDouble) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool align_corners, c.Attr<bool>("align_corners"));
  ASSIGN_OR_RETURN(const bool half_pixel_centers, c.Attr<bool>("half_pixel_centers"));
  c.set_dx(0, Output(c.scope().Add("ResizeBicubicGrad", {c.dy(0), c.input(0)},
                                   {{"align_corners", align_corners}, {"half_pixel_centers", half_pixel_centers}})));
  return absl::OkStatus();
}

const OpRegistration kResizeSmoothOps[] = {
    Op("ResizeBicubic")
        .Input("images: T")
        .Input("size: int32")
        .Output("resized_images: float")
        .Attr(kImageTypes)
        .Attr("align_corners: bool = false")
        .Attr("half_pixel_centers: bool = false")
        .Shape(ResizeShape)
        .Kernel<BicubicKernel>()
        .Gradient(BicubicGradient),
    Op("ResizeBicubicGrad")
        .Input("grads: float")
        .Input("original_image: T")
        .Output("output: T")
        .Attr("T: {float, double}")
        .Attr("align_corners: bool = false")
        .Attr("half_pixel_centers: bool = false")
        .Shape(LikeInput1Shape)
        .Kernel<BicubicGradKernel>(),
    Op("ResizeArea")
        .Input("images: T")
        .Input("size: int32")
        .Output("resized_images: float")
        .Attr(kImageTypes)
        .Attr("align_corners: bool = false")
        .Shape(ResizeShape)
        .Kernel<AreaKernel>(),
};

}  // namespace

Output ResizeBicubic(const Scope& s, Output images, const IntsArg& size, const ResizeOptions& options) {
  return s.Add("ResizeBicubic", {images, size.AsTensor(s, "size")},
               {{"align_corners", options.align_corners}, {"half_pixel_centers", options.half_pixel_centers}});
}
Output ResizeArea(const Scope& s, Output images, const IntsArg& size, const ResizeAreaOptions& options) {
  return s.Add("ResizeArea", {images, size.AsTensor(s, "size")}, {{"align_corners", options.align_corners}});
}

}  // namespace thalweg
