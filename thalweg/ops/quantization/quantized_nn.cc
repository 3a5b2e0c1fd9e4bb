// SPDX-License-Identifier: Apache-2.0
// QuantizedRelu, QuantizedRelu6, QuantizedMaxPool, QuantizedAvgPool and
// QuantizedConv2D: layers on integers that stand for ranges of floats.
// QuantizedResizeBilinear: ResizeBilinear in fixed-point arithmetic.
// QuantizedBatchNormWithGlobalNormalization: (t - m) / sqrt(v + epsilon) * gamma + beta in fixed-point arithmetic.
#include <algorithm>
#include <cmath>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/image/image_scale.h"
#include "thalweg/ops/nn/window.h"
#include "thalweg/ops/quantization/quantized_range.h"

namespace thalweg {
namespace {

using ByteTypes = Types<int8_t, uint8_t>;

// Between 0 and, for Relu6, 6.
template <bool kRelu6>
absl::Status ComputeRelu(KernelContext& c) {
  const Tensor x = c.input(0);
  ASSIGN_OR_RETURN(const QuantizedRange range, RangeInput(c, 1));
  ASSIGN_OR_RETURN(Tensor* const y, c.Allocate(0, x.shape()));
  if (y->dtype() != x.dtype()) return Unimplemented("Relu of ", x.dtype(), " to ", y->dtype());
  RETURN_IF_ERROR(SetRange(c, 1, range));
  return Dispatch(QuantizedStorage(), StorageType(x.dtype()), [&]<typename T>() {
    const T zero = ToQuantized<T>(0, range), six = ToQuantized<T>(6, range);
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const T value = std::max(Integers<T>(x)[i], zero);
      MutableIntegers<T>(y)[i] = kRelu6 ? std::min(value, six) : value;
    }
    return absl::OkStatus();
  });
}

class QuantizedPoolKernel final : public Kernel {
 public:
  explicit QuantizedPoolKernel(bool average) : average_(average) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(attrs_, WindowAttrs::Read(init.node().def(), 2));
    if (attrs_.ksize.size() != 4) return InvalidArgument("Sliding window ksize field must specify 4 dimensions");
    if (attrs_.strides.size() != 4) return InvalidArgument("Sliding window stride field must specify 4 dimensions");
    if (attrs_.ksize[0] != 1 || attrs_.strides[0] != 1) {
      return Unimplemented("Pooling is not yet supported on the batch dimension.");
    }
    if (attrs_.ksize[3] != 1) return Unimplemented("Non-spatial pooling is not yet supported.");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor x = c.input(0);
    ASSIGN_OR_RETURN(const QuantizedRange range, RangeInput(c, 1));
    if (x.rank() != 4) return InvalidArgument("tensor_in must be 4-dimensional");
    ASSIGN_OR_RETURN(const Windows windows, attrs_.SlideKsize(x.shape().dims()));
    const int64_t channels = x.dim(3), positions = OutputPositions(windows);
    ASSIGN_OR_RETURN(const Shape shape, attrs_.OutputShape(x.dim(0), windows, channels));
    ASSIGN_OR_RETURN(Tensor* const y, c.Allocate(0, shape));
    RETURN_IF_ERROR(SetRange(c, 1, range));
    if (shape.num_elements() == 0) return absl::OkStatus();
    const int64_t image = InputPositions(windows) * channels;
    return Dispatch(QuantizedStorage(), StorageType(x.dtype()), [&]<typename T>() {
      c.ParallelFor(x.dim(0) * positions, static_cast<double>(WindowPositions(windows) * channels),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) {
                        Pool(windows, Integers<T>(x) + i / positions * image, i % positions, channels,
                             MutableIntegers<T>(y) + i * channels);
                      }
                    });
      return absl::OkStatus();
    });
  }

 private:
  template <typename T>
  void Pool(const Windows& windows, const T* image, int64_t position, int64_t channels, T* to) const {
    for (int64_t k = 0; k < channels; ++k) {
      int64_t sum = 0, count = 0;
      T most = std::numeric_limits<T>::lowest();
      ForWindow(windows, position, [&](int64_t at) {
        sum += image[at * channels + k];
        most = std::max(most, image[at * channels + k]);
        ++count;
      });
      to[k] = !average_ ? most : count == 0 ? T(0) : static_cast<T>(sum / count);
    }
  }

  const bool average_;
  WindowAttrs attrs_;
};

class QuantizedConvKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(attrs_, WindowAttrs::Read(init.node().def(), 2));
    const std::vector<int64_t>& strides = attrs_.strides;
    if (strides.size() != 4) return InvalidArgument("Sliding window strides field must specify 4 dimensions");
    if (strides[1] != strides[2]) {
      return InvalidArgument(
          "Current implementation only supports equal length strides in the row and column "
          "dimensions.");
    }
    if (strides[0] != 1 || strides[3] != 1) {
      return InvalidArgument("Current implementation does not yet support strides in the batch and depth dimensions.");
    }
    for (const int64_t dilation : attrs_.dilations) {
      if (dilation != 1) return Unimplemented("Current implementation only supports dilations of 1.");
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor x = c.input(0), filter = c.input(1);
    if (x.rank() != 4) return InvalidArgument("input must be 4-dimensional", x.shape());
    if (filter.rank() != 4) return InvalidArgument("filter must be 4-dimensional: ", filter.shape());
    ASSIGN_OR_RETURN(const QuantizedRange rx, RangeInput(c, 2));
    ASSIGN_OR_RETURN(const QuantizedRange rf, RangeInput(c, 4));
    if (x.dim(3) != filter.dim(2)) {
      return InvalidArgument("input and filter must have the same depth: ", x.dim(3), " vs ", filter.dim(2));
    }
    ASSIGN_OR_RETURN(const Windows windows, attrs_.Slide(x.shape().dims(), {filter.dim(0), filter.dim(1)}));
    ASSIGN_OR_RETURN(const Shape shape, attrs_.OutputShape(x.dim(0), windows, filter.dim(3)));
    ASSIGN_OR_RETURN(Tensor* const y, c.Allocate(0, shape));
    if (StorageType(y->dtype()) != kInt32) return Unimplemented("a result of type ", y->dtype(), "; use qint32");
    return Dispatch(ByteTypes(), StorageType(x.dtype()), [&]<typename X>() {
      return Dispatch(ByteTypes(), StorageType(filter.dtype()), [&]<typename F>() -> absl::Status {
        const float level = OneLevel<X>(rx) * OneLevel<F>(rf);
        RETURN_IF_ERROR(SetRange(c, 1,
                                 {level * static_cast<float>(std::numeric_limits<int32_t>::lowest()),
                                  level * static_cast<float>(std::numeric_limits<int32_t>::max())}));
        if (shape.num_elements() == 0) return absl::OkStatus();
        const auto zero_x = static_cast<uint32_t>(Unclamped<X>(0, rx));
        const auto zero_f = static_cast<uint32_t>(Unclamped<F>(0, rf));
        const int64_t positions = OutputPositions(windows), outs = filter.dim(3);
        c.ParallelFor(x.dim(0) * positions, static_cast<double>(filter.num_elements()),
                      [&](int64_t begin, int64_t end) {
                        for (int64_t i = begin; i < end; ++i) {
                          Convolve(windows, x, filter, Integers<X>(x), Integers<F>(filter), i / positions,
                                   i % positions, zero_x, zero_f, MutableIntegers<int32_t>(y) + i * outs);
                        }
                      });
        return absl::OkStatus();
      });
    });
  }

 private:
  // One output position. Positions outside of the image are 0, which adds nothing.
  template <typename X, typename F>
  static void Convolve(const Windows& w, const Tensor& x, const Tensor& filter, const X* px, const F* pf, int64_t image,
                       int64_t position, uint32_t zero_x, uint32_t zero_f, int32_t* to) {
    const int64_t depth = x.dim(3), outs = filter.dim(3);
    std::fill_n(to, outs, 0);
    const int64_t top = w[1].Start(position / w[2].output), left = w[2].Start(position % w[2].output);
    for (int64_t i = 0; i < w[1].window; ++i) {
      for (int64_t j = 0; j < w[2].window; ++j) {
        const int64_t row = top + i, column = left + j;
        if (row < 0 || row >= w[1].input || column < 0 || column >= w[2].input) continue;
        const X* const pixel = px + ((image * w[1].input + row) * w[2].input + column) * depth;
        const F* const taps = pf + (i * w[2].window + j) * depth * outs;
        for (int64_t d = 0; d < depth; ++d) {
          const uint32_t value = static_cast<uint32_t>(pixel[d]) - zero_x;
          for (int64_t k = 0; k < outs; ++k) {
            to[k] = static_cast<int32_t>(static_cast<uint32_t>(to[k]) +
                                         value * (static_cast<uint32_t>(taps[d * outs + k]) - zero_f));
          }
        }
      }
    }
  }

  WindowAttrs attrs_;
};

absl::Status SetRangeShapes(ShapeContext& c, int first) {
  for (int i = first; i < c.num_inputs(); ++i) RETURN_IF_ERROR(c.RequireScalar(i));
  c.set_output(1, PartialShape(Shape()));
  c.set_output(2, PartialShape(Shape()));
  return absl::OkStatus();
}

absl::Status ReluShape(ShapeContext& c) {
  RETURN_IF_ERROR(SetRangeShapes(c, 1));
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

absl::Status PoolShape(ShapeContext& c) {
  RETURN_IF_ERROR(SetRangeShapes(c, 1));
  ASSIGN_OR_RETURN(const WindowAttrs attrs, WindowAttrs::Read(c.node().def(), 2));
  if (attrs.ksize.size() != 4) return InvalidArgument("Sliding window ksize field must specify 4 dimensions");
  ASSIGN_OR_RETURN(const PartialShape input, c.WithRank(0, 4));
  ASSIGN_OR_RETURN(const PartialShape out, attrs.InferOutput(input, {attrs.ksize[1], attrs.ksize[2]}, input.dim(3)));
  c.set_output(0, out);
  return absl::OkStatus();
}

absl::Status ConvShape(ShapeContext& c) {
  RETURN_IF_ERROR(SetRangeShapes(c, 2));
  ASSIGN_OR_RETURN(const WindowAttrs attrs, WindowAttrs::Read(c.node().def(), 2));
  ASSIGN_OR_RETURN(const PartialShape input, c.WithRank(0, 4));
  ASSIGN_OR_RETURN(const PartialShape filter, c.WithRank(1, 4));
  ASSIGN_OR_RETURN(const PartialShape out, attrs.InferOutput(input, {filter.dim(0), filter.dim(1)}, filter.dim(3)));
  c.set_output(0, out);
  return absl::OkStatus();
}

constexpr char kTinput[] = "Tinput: {qint8, quint8, qint32, qint16, quint16}";

Op Relu(absl::string_view name) {
  return Op(name)
      .Input("features: Tinput")
      .Input("min_features: float")
      .Input("max_features: float")
      .Output("activations: out_type")
      .Output("min_activations: float")
      .Output("max_activations: float")
      .Attr(kTinput)
      .Attr("out_type: {qint8, quint8, qint32, qint16, quint16} = DT_QUINT8")
      .Shape(ReluShape)
      .NotDifferentiable();
}

Op Pool(absl::string_view name, bool average) {
  return Op(name)
      .Input("input: T")
      .Input("min_input: float")
      .Input("max_input: float")
      .Output("output: T")
      .Output("min_output: float")
      .Output("max_output: float")
      .Attr("T: {qint8, quint8, qint32, qint16, quint16}")
      .Attr("ksize: list(int)")
      .Attr("strides: list(int)")
      .Attr("padding: {'SAME', 'VALID'}")
      .Shape(PoolShape)
      .Kernel<QuantizedPoolKernel>(average)
      .NotDifferentiable();
}

const OpRegistration kQuantizedNnOps[] = {
    Relu("QuantizedRelu").Compute(ComputeRelu<false>),
    Relu("QuantizedRelu6").Compute(ComputeRelu<true>),
    Pool("QuantizedMaxPool", false),
    Pool("QuantizedAvgPool", true),
    Op("QuantizedConv2D")
        .Input("input: Tinput")
        .Input("filter: Tfilter")
        .Input("min_input: float")
        .Input("max_input: float")
        .Input("min_filter: float")
        .Input("max_filter: float")
        .Output("output: out_type")
        .Output("min_output: float")
        .Output("max_output: float")
        .Attr(kTinput)
        .Attr("Tfilter: {qint8, quint8, qint32, qint16, quint16}")
        .Attr("out_type: {qint8, quint8, qint32, qint16, quint16} = DT_QINT32")
        .Attr("strides: list(int)")
        .Attr("padding: {'SAME', 'VALID'}")
        .Attr("dilations: list(int) = [1, 1, 1, 1]")
        .Shape(ConvShape)
        .Kernel<QuantizedConvKernel>()
        .NotDifferentiable(),
};

// Between four neighbours. `bits` of the weights are behind the point. Like TensorFlow, it divides before the second
// product, and rounds up.
template <typename T, typename Wide, int bits>
struct FixedLerp {
  static constexpr Wide kOne = Wide{1} << bits;
  static Wide Weight(float weight) { return static_cast<Wide>(weight * static_cast<float>(kOne)); }
  T operator()(T top_left, T top_right, T bottom_left, T bottom_right, float x, float y) const {
    const Wide x_weight = Weight(x), y_weight = Weight(y);
    const auto between = [&](T left, T right) {
      return static_cast<Wide>(static_cast<Wide>(left) * kOne +
                               (static_cast<Wide>(right) - static_cast<Wide>(left)) * x_weight);
    };
    const Wide top = between(top_left, top_right), bottom = between(bottom_left, bottom_right);
    const Wide out = static_cast<Wide>(top + (bottom - top) / kOne * y_weight);
    return static_cast<T>(static_cast<int32_t>((out + kOne / 2) / kOne));
  }
};
struct FloatLerp {
  float operator()(float top_left, float top_right, float bottom_left, float bottom_right, float x, float y) const {
    const float top = top_left + (top_right - top_left) * x, bottom = bottom_left + (bottom_right - bottom_left) * x;
    return top + (bottom - top) * y;
  }
};

class QuantizedResizeKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(mode_, ReadResizeMode(init));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const QuantizedRange range, RangeInput(c, 2));
    ASSIGN_OR_RETURN(const ResizeShapes r, ReadResize(c, mode_));
    const Tensor image = c.input(0);
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, r.shape));
    RETURN_IF_ERROR(SetRange(c, 1, range));
    if (image.dtype() == kFloat) return Resize<float>(c, r, image, FloatLerp(), out);
    if (image.dtype() == kQuint8) return Resize<uint8_t>(c, r, image, FixedLerp<uint8_t, int32_t, 7>(), out);
    return Resize<int32_t>(c, r, image, FixedLerp<int32_t, int64_t, 30>(), out);
  }

 private:
  template <typename T, typename F>
  static absl::Status Resize(KernelContext& c, const ResizeShapes& r, const Tensor& image, const F& lerp, Tensor* out) {
    std::vector<Lerp> xs;
    for (int64_t x = 0; x < r.x.out; ++x) xs.push_back(LerpAt(r.x, x));
    const int64_t in_row = r.x.in * r.channels, out_row = r.x.out * r.channels;
    c.ParallelFor(r.batch * r.y.out, 6.0 * static_cast<double>(out_row), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const Lerp y = LerpAt(r.y, row % r.y.out);
        const T* const from = Integers<T>(image) + row / r.y.out * r.y.in * in_row;
        const T *const top = from + y.low * in_row, *const bottom = from + y.high * in_row;
        T* to = MutableIntegers<T>(out) + row * out_row;
        for (const Lerp& x : xs) {
          const int64_t left = x.low * r.channels, right = x.high * r.channels;
          for (int64_t k = 0; k < r.channels; ++k) {
            *to++ = lerp(top[left + k], top[right + k], bottom[left + k], bottom[right + k], x.weight, y.weight);
          }
        }
      }
    });
    return absl::OkStatus();
  }

  ResizeMode mode_;
};

class QuantizedGlobalNormKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(epsilon_, init.Attr<float>("variance_epsilon"));
    ASSIGN_OR_RETURN(scales_, init.Attr<bool>("scale_after_normalization"));
    if (init.node().input_type(0) != kQuint8 || init.node().output_type(0) != kQint32) {
      return Unimplemented("QuantizedBatchNormWithGlobalNormalization from ", init.node().input_type(0), " to ",
                           init.node().output_type(0));
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor x = c.input(0);
    if (x.rank() != 4) return InvalidArgument("input must be 4-dimensional", x.shape());
    QuantizedRange ranges[5];
    for (int i = 0; i < 5; ++i) {
      ASSIGN_OR_RETURN(ranges[i], RangeInput(c, 3 * i + 1));
    }
    static constexpr const char* kNames[] = {"mean", "var", "beta", "gamma"};
    const int64_t channels = x.dim(3);
    for (int i = 1; i < 5; ++i) {
      const Tensor& vector = c.input(3 * i);
      if (vector.rank() != 1) return InvalidArgument(kNames[i - 1], " must be 1-dimensional", vector.shape());
      if (vector.dim(0) == channels && channels > 0) continue;
      return InvalidArgument(kNames[i - 1], " must have as many elements as there are channels, ", channels,
                             ", and at least one; got ", vector.dim(0));
    }
    // TensorFlow's range, which leaves ten bits behind the point.
    constexpr QuantizedRange kOut{-(1 << 20), 1 << 20};
    const auto value = [&](int i, int64_t k) {
      return ToFloat<uint8_t>(Integers<uint8_t>(c.input(3 * i))[k], ranges[i]);
    };
    std::vector<int32_t> factors(channels), offsets(channels);
    for (int64_t k = 0; k < channels; ++k) {
      const float inverse = 1.0f / std::sqrt(value(2, k) + epsilon_);
      const float factor = scales_ ? inverse * value(4, k) : inverse;
      factors[k] = ToQuantized<int32_t>(factor, kOut);
      offsets[k] = ToQuantized<int32_t>(-value(1, k) * factor + value(3, k), kOut);
    }
    const int32_t one = ToQuantized<int32_t>(1.0f, kOut);
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, x.shape()));
    RETURN_IF_ERROR(SetRange(c, 1, kOut));
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const int64_t k = i % channels;
      const int32_t in = ToQuantized<int32_t>(ToFloat<uint8_t>(Integers<uint8_t>(x)[i], ranges[0]), kOut);
      // Products and sums wrap around.
      const auto product = static_cast<int32_t>(int64_t{in} * factors[k]);
      MutableIntegers<int32_t>(out)[i] = static_cast<int32_t>(int64_t{product / one} + offsets[k]);
    }
    return absl::OkStatus();
  }

 private:
  float epsilon_ = 0;
  bool scales_ = false;
};

absl::Status QuantizedResizeShape(ShapeContext& c) {
  RETURN_IF_ERROR(ResizeShape(c));
  for (int i = 2; i < 4; ++i) {
    RETURN_IF_ERROR(c.WithRank(i, 0).status());
    c.set_output(i - 1, PartialShape(Shape()));
  }
  return absl::OkStatus();
}

absl::Status QuantizedGlobalNormShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape out, c.WithRank(0, 4));
  c.set_output(0, std::move(out));
  for (int i = 1; i < 3; ++i) c.set_output(i, PartialShape(Shape()));
  return absl::OkStatus();
}

Op GlobalNorm() {
  Op op("QuantizedBatchNormWithGlobalNormalization");
  for (const char* name : {"t", "m", "v", "beta", "gamma"}) {
    op.Input(absl::StrCat(name, ": Tinput"));
    op.Input(absl::StrCat(name, "_min: float"));
    op.Input(absl::StrCat(name, "_max: float"));
  }
  return op.Output("result: out_type")
      .Output("result_min: float")
      .Output("result_max: float")
      .Attr("Tinput: {qint8, quint8, qint32, qint16, quint16}")
      .Attr("out_type: {qint8, quint8, qint32, qint16, quint16}")
      .Attr("variance_epsilon: float")
      .Attr("scale_after_normalization: bool")
      .Shape(QuantizedGlobalNormShape)
      .Kernel<QuantizedGlobalNormKernel>()
      .NotDifferentiable();
}

const OpRegistration kQuantizedImages[] = {
    Op("QuantizedResizeBilinear")
        .Input("images: T")
        .Input("size: int32")
        .Input("min: float")
        .Input("max: float")
        .Output("resized_images: T")
        .Output("out_min: float")
        .Output("out_max: float")
        .Attr("T: {quint8, qint32, float}")
        .Attr("align_corners: bool = false")
        .Attr("half_pixel_centers: bool = false")
        .Shape(QuantizedResizeShape)
        .Kernel<QuantizedResizeKernel>()
        .NotDifferentiable(),
    GlobalNorm(),
};

}  // namespace
}  // namespace thalweg
