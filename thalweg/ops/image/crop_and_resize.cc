// SPDX-License-Identifier: Apache-2.0
// CropAndResize cuts boxes, (y1, x1, y2, x2) as fractions of an image, out of a
// batch of images, and gives each the same size, by bilinear interpolation or by
// the nearest pixel. Positions outside get the extrapolation value. Its gradients are
// CropAndResizeGradImage and CropAndResizeGradBoxes.
#include <cmath>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/image_ops.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

using CropTypes = Types<uint8_t, uint16_t, int8_t, int16_t, int32_t, int64_t, Half, float, double>;

// Along one dimension of a box: where the pixels of the crop lie in the image.
class Axis {
 public:
  Axis(float begin, float end, int64_t image, int64_t crop)
      : begin_(begin), end_(end), last_(static_cast<float>(image - 1)), image_(image), crop_(crop) {
    scale_ = crop > 1 ? (end - begin) * last_ / static_cast<float>(crop - 1) : 0.0f;
  }
  struct Place {
    bool inside;
    int64_t low, high;
    float weight;  // weight of the high one
    int64_t nearest;
  };
  Place At(int64_t i) const {
    const float place =
        crop_ > 1 ? begin_ * last_ + static_cast<float>(i) * scale_ : static_cast<float>(0.5 * (begin_ + end_) * last_);
    if (!(place >= 0 && place <= last_)) return {.inside = false};
    const float low = std::floor(place);
    // Floats cannot represent all integers above 2^24: keep rounded positions inside the image.
    const auto pixel = [&](float at) { return std::min(static_cast<int64_t>(at), image_ - 1); };
    return {true, pixel(low), pixel(std::ceil(place)), place - low, pixel(std::round(place))};
  }
  // d place / d begin and / d end.
  float BeginSlope(int64_t i) const { return crop_ > 1 ? last_ - EndSlope(i) : 0.5f * last_; }
  float EndSlope(int64_t i) const {
    return crop_ > 1 ? static_cast<float>(i) * (last_ / static_cast<float>(crop_ - 1)) : 0.5f * last_;
  }

 private:
  float begin_, end_, last_, scale_;
  int64_t image_, crop_;
};

struct Sizes {
  int64_t batch = 0, height = 0, width = 0, depth = 0;  // dimensions of the images
  int64_t boxes = 0, crop_height = 0, crop_width = 0;
};

absl::Status CheckBoxes(const Tensor& boxes, const Tensor& box_ind, Sizes* sizes) {
  if (boxes.num_elements() > 0 || box_ind.num_elements() > 0) {
    if (boxes.rank() != 2) return InvalidArgument("boxes must be 2-D", boxes.shape());
    if (boxes.dim(1) != 4) return InvalidArgument("boxes must have 4 columns");
    if (box_ind.rank() != 1) return InvalidArgument("box_index must be 1-D", box_ind.shape());
    if (box_ind.dim(0) != boxes.dim(0)) return InvalidArgument("box_index has incompatible shape");
    sizes->boxes = boxes.dim(0);
  }
  for (const int32_t index : box_ind.flat<int32_t>()) {
    if (index < 0 || index >= sizes->batch) return OutOfRange("box_index has values outside [0, batch_size)");
  }
  for (const float value : boxes.flat<float>()) {
    if (!std::isfinite(value)) return InvalidArgument("Boxes contains at least one element that is not finite");
  }
  return absl::OkStatus();
}

// Calls f(box, image, y, x, where y, where x) for every pixel of every crop; the
// places may be outside.
template <typename F>
void ForEachCropPixel(const Sizes& s, const Tensor& boxes, const Tensor& box_ind, int64_t begin, int64_t end, F&& f) {
  for (int64_t b = begin; b < end; ++b) {
    const float* const box = boxes.data<float>() + 4 * b;
    const Axis ys(box[0], box[2], s.height, s.crop_height), xs(box[1], box[3], s.width, s.crop_width);
    for (int64_t y = 0; y < s.crop_height; ++y) {
      const Axis::Place at_y = ys.At(y);
      for (int64_t x = 0; x < s.crop_width; ++x) {
        f(b, box_ind.data<int32_t>()[b], y, x, at_y, xs.At(x), ys, xs);
      }
    }
  }
}

class CropKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const std::string method, init.Attr<std::string>("method"));
    nearest_ = method == "nearest";
    if (HasAttr(init.node().def(), "extrapolation_value")) {
      ASSIGN_OR_RETURN(outside_, init.Attr<float>("extrapolation_value"));
    }
    return absl::OkStatus();
  }

 protected:
  bool nearest_ = false;
  float outside_ = 0;
};

class CropAndResizeKernel : public CropKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& image = c.input(0);
    const Tensor& boxes = c.input(1);
    const Tensor& size = c.input(3);
    if (image.rank() != 4) return InvalidArgument("input image must be 4-D", image.shape());
    Sizes s{image.dim(0), image.dim(1), image.dim(2), image.dim(3)};
    if (s.height == 0 || s.width == 0) return InvalidArgument("image dimensions must be positive");
    if (boxes.rank() != 2) return InvalidArgument("boxes must be 2-D, got: ", boxes.shape());
    if (c.input(2).rank() != 1) return InvalidArgument("box_indices must be rank 1 but is shape ", c.input(2).shape());
    RETURN_IF_ERROR(CheckBoxes(boxes, c.input(2), &s));
    if (size.rank() != 1) return InvalidArgument("crop_size must be 1-D", size.shape());
    if (size.dim(0) != 2) return InvalidArgument("crop_size must have two elements", size.shape());
    s.crop_height = ReadInteger(size, 0);
    s.crop_width = ReadInteger(size, 1);
    if (s.crop_height <= 0 || s.crop_width <= 0) return InvalidArgument("crop dimensions must be positive");
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make({s.boxes, s.crop_height, s.crop_width, s.depth}));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    return Dispatch(CropTypes(), image.dtype(), [&]<typename T>() {
      const T* const pixels = image.data<T>();
      float* const to = out->mutable_data<float>();
      c.ParallelFor(s.boxes, 4.0 * s.crop_height * s.crop_width * s.depth, [&](int64_t begin, int64_t end) {
        ForEachCropPixel(
            s, boxes, c.input(2), begin, end,
            [&](int64_t b, int64_t from, int64_t y, int64_t x, const Axis::Place& at_y, const Axis::Place& at_x,
                const Axis&, const Axis&) {
              float* const pixel = to + ((b * s.crop_height + y) * s.crop_width + x) * s.depth;
              if (!at_y.inside || !at_x.inside) {
                std::fill_n(pixel, s.depth, outside_);
                return;
              }
              const auto at = [&](int64_t row, int64_t column, int64_t k) {
                return static_cast<float>(pixels[((from * s.height + row) * s.width + column) * s.depth + k]);
              };
              for (int64_t k = 0; k < s.depth; ++k) {
                if (nearest_) {
                  pixel[k] = at(at_y.nearest, at_x.nearest, k);
                  continue;
                }
                const float top_left = at(at_y.low, at_x.low, k), bottom_left = at(at_y.high, at_x.low, k);
                const float top = top_left + (at(at_y.low, at_x.high, k) - top_left) * at_x.weight;
                const float bottom = bottom_left + (at(at_y.high, at_x.high, k) - bottom_left) * at_x.weight;
                pixel[k] = top + (bottom - top) * at_y.weight;
              }
            });
      });
      return absl::OkStatus();
    });
  }
};

absl::Status CheckGradient(const Tensor& gradient, Sizes* s) {
  if (gradient.rank() != 4) return InvalidArgument("grads image must be 4-D", gradient.shape());
  s->crop_height = gradient.dim(1);
  s->crop_width = gradient.dim(2);
  if (s->crop_height == 0 || s->crop_width == 0) return InvalidArgument("grads dimensions must be positive");
  return absl::OkStatus();
}

class GradImageKernel : public CropKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& gradient = c.input(0);
    const Tensor& size = c.input(3);
    Sizes s;
    RETURN_IF_ERROR(CheckGradient(gradient, &s));
    if (size.rank() != 1) return InvalidArgument("image_size must be 1-D", size.shape());
    if (size.dim(0) != 4) return InvalidArgument("image_size must have 4 elements", size.shape());
    ASSIGN_OR_RETURN(const Shape shape, ReadShape(size, "image_size"));
    s.batch = shape.dim(0);
    s.height = shape.dim(1);
    s.width = shape.dim(2);
    s.depth = shape.dim(3);
    RETURN_IF_ERROR(CheckBoxes(c.input(1), c.input(2), &s));
    if (gradient.dim(0) != s.boxes) return InvalidArgument("boxes and grads have incompatible shape");
    if (s.height == 0 || s.width == 0) return InvalidArgument("image dimensions must be positive");
    if (gradient.dim(3) != s.depth) return InvalidArgument("image_size and grads are incompatible");
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    return Dispatch(Types<float, Half, double>(), out->dtype(), [&]<typename T>() {
      T* const to = out->mutable_data<T>();
      std::fill_n(to, out->num_elements(), T(0));
      const float* from = gradient.data<float>();
      ForEachCropPixel(s, c.input(1), c.input(2), 0, s.boxes,
                       [&](int64_t, int64_t image, int64_t, int64_t, const Axis::Place& at_y, const Axis::Place& at_x,
                           const Axis&, const Axis&) {
                         const float* const g = from;
                         from += s.depth;
                         if (!at_y.inside || !at_x.inside) return;
                         const auto add = [&](int64_t row, int64_t column, float weight) {
                           T* const pixel = to + ((image * s.height + row) * s.width + column) * s.depth;
                           for (int64_t k = 0; k < s.depth; ++k) pixel[k] = static_cast<T>(pixel[k] + T(weight * g[k]));
                         };
                         if (nearest_) return add(at_y.nearest, at_x.nearest, 1);
                         add(at_y.low, at_x.low, (1 - at_y.weight) * (1 - at_x.weight));
                         add(at_y.low, at_x.high, (1 - at_y.weight) * at_x.weight);
                         add(at_y.high, at_x.low, at_y.weight * (1 - at_x.weight));
                         add(at_y.high, at_x.high, at_y.weight * at_x.weight);
                       });
      return absl::OkStatus();
    });
  }
};

absl::Status ComputeGradBoxes(KernelContext& c) {
  const Tensor& gradient = c.input(0);
  const Tensor& image = c.input(1);
  Sizes s;
  RETURN_IF_ERROR(CheckGradient(gradient, &s));
  if (image.rank() != 4) return InvalidArgument("input image must be 4-D", image.shape());
  s.batch = image.dim(0);
  s.height = image.dim(1);
  s.width = image.dim(2);
  s.depth = image.dim(3);
  if (s.height == 0 || s.width == 0) return InvalidArgument("image dimensions must be positive");
  if (gradient.dim(3) != s.depth) return InvalidArgument("image, grads depth differ");
  RETURN_IF_ERROR(CheckBoxes(c.input(2), c.input(3), &s));
  if (gradient.dim(0) != s.boxes) return InvalidArgument("boxes and grads have incompatible shape");
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape({s.boxes, 4})));
  return Dispatch(CropTypes(), image.dtype(), [&]<typename T>() {
    float* const to = out->mutable_data<float>();
    std::fill_n(to, out->num_elements(), 0.0f);
    const T* const pixels = image.data<T>();
    const float* from = gradient.data<float>();
    ForEachCropPixel(
        s, c.input(2), c.input(3), 0, s.boxes,
        [&](int64_t b, int64_t index, int64_t y, int64_t x, const Axis::Place& at_y, const Axis::Place& at_x,
            const Axis& ys, const Axis& xs) {
          const float* const g = from;
          from += s.depth;
          if (!at_y.inside || !at_x.inside) return;
          const auto at = [&](int64_t row, int64_t column, int64_t k) {
            return static_cast<float>(pixels[((index * s.height + row) * s.width + column) * s.depth + k]);
          };
          float slope_y = 0, slope_x = 0;
          for (int64_t k = 0; k < s.depth; ++k) {
            const float top_left = at(at_y.low, at_x.low, k), top_right = at(at_y.low, at_x.high, k);
            const float bottom_left = at(at_y.high, at_x.low, k);
            const float bottom_right = at(at_y.high, at_x.high, k);
            slope_y += g[k] * ((1 - at_x.weight) * (bottom_left - top_left) + at_x.weight * (bottom_right - top_right));
            slope_x += g[k] * ((1 - at_y.weight) * (top_right - top_left) + at_y.weight * (bottom_right - bottom_left));
          }
          to[4 * b] += slope_y * ys.BeginSlope(y);
          to[4 * b + 1] += slope_x * xs.BeginSlope(x);
          to[4 * b + 2] += slope_y * ys.EndSlope(y);
          to[4 * b + 3] += slope_x * xs.EndSlope(x);
        });
    return absl::OkStatus();
  });
}

absl::Status CropShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape image, c.WithRank(0, 4));
  ASSIGN_OR_RETURN(const PartialShape boxes, c.WithRank(1, 2));
  RETURN_IF_ERROR(c.WithRank(2, 1).status());
  Dims dims = {boxes.dim(0), PartialShape::kUnknown, PartialShape::kUnknown, image.dim(3)};
  if (const std::optional<Dims> size = ConstantIntegers(c, 3); size && size->size() == 2) {
    dims[1] = std::max<int64_t>((*size)[0], PartialShape::kUnknown);
    dims[2] = std::max<int64_t>((*size)[1], PartialShape::kUnknown);
  }
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}
absl::Status GradImageShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, c.ConstantAsShape(3));
  if (shape.has_rank() && shape.rank() != 4) return InvalidArgument("image_size must have 4 elements");
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}
absl::Status GradBoxesShape(ShapeContext& c) {
  c.set_output(0, c.input(2));
  return absl::OkStatus();
}

absl::Status CropGradient(GradientContext& c) {
  const Scope& s = c.scope();
  ASSIGN_OR_RETURN(const std::string method, c.Attr<std::string>("method"));
  const DType dtype = c.node()->input_type(0);
  if (dtype == kFloat || dtype == kHalf || dtype == kDouble) {
    c.set_dx(0, Output(s.Add("CropAndResizeGradImage", {c.dy(0), c.input(1), c.input(2), ShapeOf(s, c.input(0))},
                             {{"T", dtype}, {"method", method}})));
  }
  if (method == "bilinear") {
    c.set_dx(1, Output(s.Add("CropAndResizeGradBoxes", {c.dy(0), c.input(0), c.input(1), c.input(2)})));
  }
  return absl::OkStatus();
}

const OpRegistration kCropAndResizeOps[] = {
    Op("CropAndResize")
        .Input("image: T")
        .Input("boxes: float")
        .Input("box_ind: int32")
        .Input("crop_size: int32")
        .Output("crops: float")
        .Attr("T: {uint8, uint16, int8, int16, int32, int64, half, float, double}")
        .Attr("method: {'bilinear', 'nearest'} = 'bilinear'")
        .Attr("extrapolation_value: float = 0.0")
        .Shape(CropShape)
        .Kernel<CropAndResizeKernel>()
        .Gradient(CropGradient),
    Op("CropAndResizeGradImage")
        .Input("grads: float")
        .Input("boxes: float")
        .Input("box_ind: int32")
        .Input("image_size: int32")
        .Output("output: T")
        .Attr("T: {float, half, double}")
        .Attr("method: {'bilinear', 'nearest'} = 'bilinear'")
        .Shape(GradImageShape)
        .Kernel<GradImageKernel>(),
    Op("CropAndResizeGradBoxes")
        .Input("grads: float")
        .Input("image: T")
        .Input("boxes: float")
        .Input("box_ind: int32")
        .Output("output: float")
        .Attr("T: {uint8, uint16, int8, int16, int32, int64, half, float, double}")
        .Attr("method: {'bilinear'} = 'bilinear'")
        .Shape(GradBoxesShape)
        .Compute(ComputeGradBoxes),
};

}  // namespace

Output CropAndResize(const Scope& s, Output image, Output boxes, Output box_ind, const IntsArg& crop_size,
                     const CropAndResizeOptions& options) {
  return s.Add("CropAndResize", {image, boxes, box_ind, crop_size.AsTensor(s, "crop_size")},
               {{"method", options.method == CropMethod::kBilinear ? "bilinear" : "nearest"},
                {"extrapolation_value", options.extrapolation_value}});
}

}  // namespace thalweg
