// SPDX-License-Identifier: Apache-2.0
// ResizeBilinear and ResizeNearestNeighbor, and their gradients. A pixel of the
// new image is a mean of the four that surround its place in the old one,
// weighted by how near they are; or the nearest of them.
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/image/image_scale.h"
#include "thalweg/ops/image_ops.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

// The largest side of a new image, because tables have an entry for every row and column.
constexpr int64_t kMaxResizedSide = 1 << 24;

}  // namespace

absl::StatusOr<ResizeShapes> ReadResize(const KernelContext& c, const ResizeMode& mode) {
  const Tensor& images = c.input(0);
  const Tensor& size = c.input(1);
  if (mode.half_pixel_centers && mode.align_corners) {
    return InvalidArgument("If half_pixel_centers is True, align_corners must be False.");
  }
  if (images.rank() != 4) return InvalidArgument("input must be 4-dimensional", images.shape());
  if (images.dim(3) == 0) return InvalidArgument("image must have at least one channel");
  if (images.dim(1) == 0 || images.dim(2) == 0) return InvalidArgument("input image must be of non-zero size");
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  if (images.dim(1) >= kMax || images.dim(2) >= kMax) {
    return InvalidArgument("input sizes must be between 0 and max int32");
  }
  if (size.rank() != 1) return InvalidArgument("shape_t must be 1-dimensional", size.shape());
  if (size.num_elements() != 2) return InvalidArgument("shape_t must have two elements", size.shape());
  const int64_t height = ReadInteger(size, 0), width = ReadInteger(size, 1);
  if (height <= 0 || width <= 0) return InvalidArgument("output dimensions must be positive");
  ResizeShapes shapes{.batch = images.dim(0), .channels = images.dim(3)};
  absl::StatusOr<Shape> shape = Shape::Make({shapes.batch, height, width, shapes.channels});
  if (!shape.ok()) return Prepend(shape.status(), "Encountered overflow when multiplying sizes: ");
  if (height > kMaxResizedSide || width > kMaxResizedSide) return InvalidArgument("output dimensions are too large");
  shapes.y = ResizeScale(images.dim(1), height, mode);
  shapes.x = ResizeScale(images.dim(2), width, mode);
  shapes.shape = *std::move(shape);
  return shapes;
}

absl::StatusOr<ResizeShapes> ReadResizeGradient(const Tensor& gradient, int64_t height, int64_t width,
                                                const ResizeMode& mode) {
  if (mode.half_pixel_centers && mode.align_corners) {
    return InvalidArgument("If half_pixel_centers is True, align_corners must be False.");
  }
  if (gradient.rank() != 4) return InvalidArgument("input_grad must be 4-dimensional", gradient.shape());
  if (gradient.dim(1) == 0 || gradient.dim(2) == 0) return InvalidArgument("resized dimensions must be positive");
  if (gradient.dim(1) > kMaxResizedSide || gradient.dim(2) > kMaxResizedSide) {
    return InvalidArgument("resized dimensions are too large");
  }
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  if (height <= 0 || width <= 0) return InvalidArgument("original dimensions must be positive");
  if (height >= kMax || width >= kMax) return InvalidArgument("original sizes must be between 0 and max int32");
  ResizeShapes shapes{.batch = gradient.dim(0), .channels = gradient.dim(3)};
  shapes.y = ResizeScale(height, gradient.dim(1), mode);
  shapes.x = ResizeScale(width, gradient.dim(2), mode);
  ASSIGN_OR_RETURN(shapes.shape, Shape::Make({shapes.batch, height, width, shapes.channels}));
  return shapes;
}

absl::Status ResizeShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape images, c.WithRank(0, 4));
  RETURN_IF_ERROR(c.WithRank(1, 1).status());
  Dims dims = {images.dim(0), PartialShape::kUnknown, PartialShape::kUnknown, images.dim(3)};
  if (const std::optional<Dims> size = ConstantIntegers(c, 1); size && size->size() == 2) {
    if ((*size)[0] < 0 || (*size)[1] < 0) return InvalidArgument("output dimensions must be positive");
    dims[1] = (*size)[0];
    dims[2] = (*size)[1];
  }
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

absl::Status LikeInput1Shape(ShapeContext& c) {
  c.set_output(0, c.input(1));
  return absl::OkStatus();
}

namespace {

class ResizeKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(mode_, ReadResizeMode(init));
    return absl::OkStatus();
  }

 protected:
  ResizeMode mode_;
};

std::vector<Lerp> Lerps(const ResizeScale& scale) {
  std::vector<Lerp> lerps;
  for (int64_t i = 0; i < scale.out; ++i) lerps.push_back(LerpAt(scale, i));
  return lerps;
}

// A line of a new image, of pixels between those of an old line. With kPick, each is the left one of the two.
// kChannels: 0 if the number is not known at compile time.
template <int kChannels, bool kPick, typename T>
void StretchChannels(const T* line, const std::vector<Lerp>& xs, int64_t channels, float* to) {
  const int64_t depth = kChannels == 0 ? channels : kChannels;
  for (const Lerp& x : xs) {
    const T* const left = line + x.low * depth;
    const T* const right = line + x.high * depth;
    for (int64_t k = 0; k < depth; ++k) {
      const float l = static_cast<float>(left[k]);
      to[k] = kPick ? l : l + (static_cast<float>(right[k]) - l) * x.weight;
    }
    to += depth;
  }
}
template <bool kPick, typename T>
void Stretch(const T* line, const std::vector<Lerp>& xs, int64_t channels, float* to) {
  if (channels == 1) return StretchChannels<1, kPick>(line, xs, channels, to);
  if (channels == 3) return StretchChannels<3, kPick>(line, xs, channels, to);
  StretchChannels<0, kPick>(line, xs, channels, to);
}

// Vectors, but no fused multiply-add: results are TensorFlow's to the last bit.
#if defined(__GNUC__) && !defined(__clang__)
[[gnu::optimize("O3")]]
#endif
void MixLines(const float* above, const float* below, float weight, int64_t n, float* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = above[i] + (below[i] - above[i]) * weight;
}

class ResizeBilinearKernel : public ResizeKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const ResizeShapes r, ReadResize(c, mode_));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, r.shape));
    const std::vector<Lerp> ys = Lerps(r.y), xs = Lerps(r.x);
    return Dispatch(ImageTypes(), c.input(0).dtype(), [&]<typename T>() {
      const T* const in = c.input(0).data<T>();
      float* const to = out->mutable_data<float>();
      c.ParallelFor(r.batch * r.y.out, 4.0 * r.x.out * r.channels,
                    [&](int64_t begin, int64_t end) { ResizeLines(r, ys, xs, in, begin, end, to); });
      return absl::OkStatus();
    });
  }

 private:
  // Lines [begin, end) of all new images: each old line is stretched, and two of them are mixed. A pixel whose weight
  // is zero does not matter, unless it could be infinite: often all of them, if the image becomes a whole number of
  // times smaller.
  template <typename T>
  static void ResizeLines(const ResizeShapes& r, const std::vector<Lerp>& ys, const std::vector<Lerp>& xs, const T* in,
                          int64_t begin, int64_t end, float* to) {
    const bool finite = std::is_integral_v<T>;
    const bool pick = finite && std::all_of(xs.begin(), xs.end(), [](const Lerp& x) { return x.weight == 0; });
    const int64_t in_row = r.x.in * r.channels, out_row = r.x.out * r.channels;
    const auto stretch = [&](int64_t line, float* stretched) {
      pick ? Stretch<true>(in + line * in_row, xs, r.channels, stretched)
           : Stretch<false>(in + line * in_row, xs, r.channels, stretched);
    };
    struct Line {
      int64_t number = -1;  // line of the input image
      std::vector<float> stretched;
    };
    Line above, below;
    const auto load = [&](int64_t number, Line* line) {
      if (line->number == number) return;
      line->number = number;
      line->stretched.resize(out_row);
      stretch(number, line->stretched.data());
    };
    for (int64_t row = begin; row < end; ++row) {
      const Lerp& y = ys[row % r.y.out];
      const int64_t first = row / r.y.out * r.y.in;
      if (finite && y.weight == 0) {
        stretch(first + y.low, to + row * out_row);
        continue;
      }
      if (below.number == first + y.low) std::swap(above, below);
      load(first + y.low, &above);
      load(first + y.high, &below);
      MixLines(above.stretched.data(), below.stretched.data(), y.weight, out_row, to + row * out_row);
    }
  }
};

// Each pixel gives its gradient to the four it came from, in the same parts.
class ResizeBilinearGradKernel : public ResizeKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& gradient = c.input(0);
    const Tensor& original = c.input(1);
    if (original.rank() != 4) return InvalidArgument("original_image must be 4-dimensional", original.shape());
    ASSIGN_OR_RETURN(const ResizeShapes r, ReadResizeGradient(gradient, original.dim(1), original.dim(2), mode_));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, r.shape));
    if (out->num_elements() == 0) return absl::OkStatus();  // images of nothing may be many
    if (out->dtype() == kDouble) {
      Spread<double>(r, gradient, out);
    } else if (out->dtype() == kFloat) {
      Spread<float>(r, gradient, out);
    } else {
      // Sums of halves would lose too much.
      ASSIGN_OR_RETURN(Tensor sums, c.AllocateTemporary(kFloat, r.shape));
      Spread<float>(r, gradient, &sums);
      return Dispatch(Types<Half, BFloat16>(), out->dtype(), [&]<typename T>() {
        std::transform(sums.data<float>(), sums.data<float>() + sums.num_elements(), out->mutable_data<T>(),
                       [](float v) { return static_cast<T>(v); });
        return absl::OkStatus();
      });
    }
    return absl::OkStatus();
  }

 private:
  template <typename T>
  static void Spread(const ResizeShapes& r, const Tensor& gradient, Tensor* out) {
    const std::vector<Lerp> ys = Lerps(r.y), xs = Lerps(r.x);
    const float* from = gradient.data<float>();
    T* const to = out->mutable_data<T>();
    std::fill_n(to, out->num_elements(), T(0));
    for (int64_t b = 0; b < r.batch; ++b) {
      for (const Lerp& y : ys) {
        T* const top = to + (b * r.y.in + y.low) * r.x.in * r.channels;
        T* const bottom = to + (b * r.y.in + y.high) * r.x.in * r.channels;
        for (const Lerp& x : xs) {
          for (int64_t k = 0; k < r.channels; ++k) {
            const float g = *from++;
            top[x.low * r.channels + k] += T(g * (1 - y.weight) * (1 - x.weight));
            top[x.high * r.channels + k] += T(g * (1 - y.weight) * x.weight);
            bottom[x.low * r.channels + k] += T(g * y.weight * (1 - x.weight));
            bottom[x.high * r.channels + k] += T(g * y.weight * x.weight);
          }
        }
      }
    }
  }
};

// The pixel of the old image that a new one is.
std::vector<int64_t> NearestPlaces(const ResizeScale& scale, const ResizeMode& mode) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < scale.out; ++i) {
    const float place =
        mode.half_pixel_centers ? (static_cast<float>(i) + 0.5f) * scale.scale : static_cast<float>(i) * scale.scale;
    const float whole = mode.align_corners ? std::round(place) : std::floor(place);
    places.push_back(std::clamp<int64_t>(static_cast<int64_t>(whole), 0, scale.in - 1));
  }
  return places;
}

class ResizeNearestKernel : public ResizeKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const ResizeShapes r, ReadResize(c, mode_));
    constexpr int64_t kMax = 1 << 24;  // integers up to this are exact in a float
    if (r.y.in >= kMax || r.x.in >= kMax) {
      return InvalidArgument("nearest neighbor requires max height & width of 2^24");
    }
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, r.shape));
    const std::vector<int64_t> ys = NearestPlaces(r.y, mode_), xs = NearestPlaces(r.x, mode_);
    const size_t pixel = static_cast<size_t>(r.channels) * ElementSize(out->dtype());
    const char* const from = static_cast<const char*>(c.input(0).raw());
    char* const to = static_cast<char*>(out->raw());
    c.ParallelFor(r.batch * r.y.out, 3.0 * r.x.out, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const char* const line = from + (row / r.y.out * r.y.in + ys[row % r.y.out]) * r.x.in * pixel;
        for (int64_t x = 0; x < r.x.out; ++x) {
          std::memcpy(to + (row * r.x.out + x) * pixel, line + xs[x] * pixel, pixel);
        }
      }
    });
    return absl::OkStatus();
  }
};

class ResizeNearestGradKernel : public ResizeKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& gradient = c.input(0);
    const Tensor& size = c.input(1);
    if (gradient.rank() != 4) return InvalidArgument("input must be 4-dimensional", gradient.shape());
    if (size.rank() != 1) return InvalidArgument("shape_t must be 1-dimensional", size.shape());
    if (size.num_elements() != 2) return InvalidArgument("shape_t must have two elements", size.shape());
    const int64_t height = ReadInteger(size, 0), width = ReadInteger(size, 1);
    if (height <= 0 || width <= 0) return InvalidArgument("shape_t's elements must be positive");
    ASSIGN_OR_RETURN(const ResizeShapes r,
                     ReadResizeGradient(gradient, height, width, {.align_corners = mode_.align_corners}));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, r.shape));
    if (out->num_elements() == 0) return absl::OkStatus();  // images of nothing may be many
    const std::vector<int64_t> ys = NearestPlaces(r.y, mode_), xs = NearestPlaces(r.x, mode_);
    return Dispatch(Types<uint8_t, int8_t, int32_t, Half, float, double, BFloat16>(), out->dtype(), [&]<typename T>() {
      const T* from = gradient.data<T>();
      T* const to = out->mutable_data<T>();
      std::fill_n(to, out->num_elements(), T(0));
      for (int64_t b = 0; b < r.batch; ++b) {
        for (const int64_t y : ys) {
          for (const int64_t x : xs) {
            T* const pixel = to + ((b * r.y.in + y) * r.x.in + x) * r.channels;
            for (int64_t k = 0; k < r.channels; ++k) pixel[k] = static_cast<T>(pixel[k] + *from++);
          }
        }
      }
      return absl::OkStatus();
    });
  }
};

std::vector<AttrArg> ModeOf(const GradientContext& c) {
  const tensorflow::NodeDef& def = c.node()->def();
  return {{"align_corners", *GetAttr<bool>(def, "align_corners")},
          {"half_pixel_centers", *GetAttr<bool>(def, "half_pixel_centers")}};
}

absl::Status BilinearGradient(GradientContext& c) {
  if (!IsFloating(c.node()->input_type(0))) return absl::OkStatus();
  c.set_dx(0, Output(c.scope().Add("ResizeBilinearGrad", {c.dy(0), c.input(0)}, ModeOf(c))));
  return absl::OkStatus();
}

absl::Status NearestGradient(GradientContext& c) {
  const Scope& s = c.scope();
  const Output size = Slice(s, ShapeOf(s, c.input(0)), Const(s, {1}), Const(s, {2}));
  c.set_dx(0, Output(s.Add("ResizeNearestNeighborGrad", {c.dy(0), size}, ModeOf(c))));
  return absl::OkStatus();
}

const OpRegistration kResizeOps[] = {
    Op("ResizeBilinear")
        .Input("images: T")
        .Input("size: int32")
        .Output("resized_images: float")
        .Attr("T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double, bfloat16}")
        .Attr("align_corners: bool = false")
        .Attr("half_pixel_centers: bool = false")
        .Shape(ResizeShape)
        .Kernel<ResizeBilinearKernel>()
        .Gradient(BilinearGradient),
    Op("ResizeBilinearGrad")
        .Input("grads: float")
        .Input("original_image: T")
        .Output("output: T")
        .Attr("T: {float, bfloat16, half, double}")
        .Attr("align_corners: bool = false")
        .Attr("half_pixel_centers: bool = false")
        .Shape(LikeInput1Shape)
        .Kernel<ResizeBilinearGradKernel>(),
    Op("ResizeNearestNeighbor")
        .Input("images: T")
        .Input("size: int32")
        .Output("resized_images: T")
        .Attr(kImageTypes)
        .Attr("align_corners: bool = false")
        .Attr("half_pixel_centers: bool = false")
        .Shape(ResizeShape)
        .Kernel<ResizeNearestKernel>()
        .Gradient(NearestGradient),
    Op("ResizeNearestNeighborGrad")
        .Input("grads: T")
        .Input("size: int32")
        .Output("output: T")
        .Attr("T: {uint8, int8, int32, half, float, double, bfloat16}")
        .Attr("align_corners: bool = false")
        .Attr("half_pixel_centers: bool = false")
        .Shape(ResizeShape)
        .Kernel<ResizeNearestGradKernel>(),
};

}  // namespace

Output ResizeBilinear(const Scope& s, Output images, const IntsArg& size, const ResizeOptions& options) {
  return s.Add("ResizeBilinear", {images, size.AsTensor(s, "size")},
               {{"align_corners", options.align_corners}, {"half_pixel_centers", options.half_pixel_centers}});
}
Output ResizeNearestNeighbor(const Scope& s, Output images, const IntsArg& size, const ResizeOptions& options) {
  return s.Add("ResizeNearestNeighbor", {images, size.AsTensor(s, "size")},
               {{"align_corners", options.align_corners}, {"half_pixel_centers", options.half_pixel_centers}});
}

}  // namespace thalweg
