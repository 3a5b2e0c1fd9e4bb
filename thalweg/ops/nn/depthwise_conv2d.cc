// SPDX-License-Identifier: Apache-2.0
// DepthwiseConv2dNative: every channel of the images is convolved with filters
// of its own, [height, width, channels, multiplier]:
//
//   output[b, y, x, c * multiplier + m] = sum over (i, j) of
//       input[b, y * stride - pad + i, x * stride - pad + j, c] * filter[i, j, c, m]
//
// and its gradients with respect to input and filter.
#include <algorithm>
#include <atomic>

#include "thalweg/base/simd.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/nn/conv_attrs.h"
#include "thalweg/ops/nn/convolver.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/support/elementwise.h"

namespace thalweg {
namespace {

// The loops of the three kinds differ in what they read and what they accumulate. `in` and
// `out` are images; `filter` has one row of input channels times multiplier per window position.
template <typename T, ConvolutionKind kind, typename In, typename Filter, typename Out>
inline void MultiplyAdd(In* in, Filter* filter, Out* out, int64_t channels, int64_t multiplier) {
  if (multiplier == 1) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) {
      if constexpr (kind == ConvolutionKind::kForward) out[c] += in[c] * filter[c];
      if constexpr (kind == ConvolutionKind::kBackpropInput) in[c] += out[c] * filter[c];
      if constexpr (kind == ConvolutionKind::kBackpropFilter) filter[c] += in[c] * out[c];
    }
    return;
  }
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t m = 0; m < multiplier; ++m) {
      const int64_t o = c * multiplier + m;
      if constexpr (kind == ConvolutionKind::kForward) out[o] += in[c] * filter[o];
      if constexpr (kind == ConvolutionKind::kBackpropInput) in[c] += out[o] * filter[o];
      if constexpr (kind == ConvolutionKind::kBackpropFilter) filter[o] += in[c] * out[o];
    }
  }
}

template <typename T, ConvolutionKind kind, typename In, typename Filter, typename Out>
THALWEG_SIMD void ImageLoop(const ConvolutionSize& s, In* in, Filter* filter, Out* out) {
  const SlidingWindow &h = s.windows[1], &w = s.windows[2];
  const int64_t multiplier = s.out_channels / s.in_channels;
  for (int64_t y = 0; y < h.output; ++y) {
    for (int64_t x = 0; x < w.output; ++x, out += s.out_channels) {
      for (int64_t i = 0; i < h.window; ++i) {
        const int64_t row = h.Start(y) + i * h.dilation;
        if (row < 0 || row >= h.input) continue;
        for (int64_t j = 0; j < w.window; ++j) {
          const int64_t column = w.Start(x) + j * w.dilation;
          if (column < 0 || column >= w.input) continue;
          MultiplyAdd<T, kind>(in + (row * w.input + column) * s.in_channels,
                               filter + (i * w.window + j) * s.out_channels, out, s.in_channels, multiplier);
        }
      }
    }
  }
}

// Tensors in the order input, filter, output; the result is zero before.
template <typename T>
absl::Status RunTyped(KernelContext& context, ConvolutionKind kind, const ConvolutionSize& s, const void* in,
                      const void* filter, const void* out, void* result) {
  const int64_t in_image = s.input_image(), out_image = s.output_image(), size = s.filter();
  const double nanos = 0.3 * s.flops();
  if (kind != ConvolutionKind::kBackpropFilter) {
    context.ParallelFor(s.batch, nanos, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        if (kind == ConvolutionKind::kForward) {
          ImageLoop<T, ConvolutionKind::kForward>(s, static_cast<const T*>(in) + b * in_image,
                                                  static_cast<const T*>(filter),
                                                  static_cast<T*>(result) + b * out_image);
        } else {
          ImageLoop<T, ConvolutionKind::kBackpropInput>(s, static_cast<T*>(result) + b * in_image,
                                                        static_cast<const T*>(filter),
                                                        static_cast<const T*>(out) + b * out_image);
        }
      }
    });
    return absl::OkStatus();
  }
  // Sums per shard, then over all shards.
  const int64_t shards = std::clamp<int64_t>(context.device().intra_op_pool().concurrency(), 1, s.batch);
  ASSIGN_OR_RETURN(Tensor sums, context.AllocateTemporary(DTypeOf<T>, Shape({shards * size})));
  T* const partial = sums.template mutable_data<T>();
  std::fill_n(partial, shards * size, T(0));
  context.ParallelFor(shards, nanos * static_cast<double>(s.batch) / static_cast<double>(shards),
                      [&](int64_t begin, int64_t end) {
                        for (int64_t shard = begin; shard < end; ++shard) {
                          for (int64_t b = s.batch * shard / shards; b < s.batch * (shard + 1) / shards; ++b) {
                            ImageLoop<T, ConvolutionKind::kBackpropFilter>(s, static_cast<const T*>(in) + b * in_image,
                                                                           partial + shard * size,
                                                                           static_cast<const T*>(out) + b * out_image);
                          }
                        }
                      });
  for (int64_t shard = 0; shard < shards; ++shard) {
    for (int64_t i = 0; i < size; ++i) static_cast<T*>(result)[i] += partial[shard * size + i];
  }
  return absl::OkStatus();
}

class DepthwiseKernel : public Kernel {
 public:
  explicit DepthwiseKernel(ConvolutionKind kind) : kind_(kind) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(attrs_, WindowAttrs::Read(init.node().def(), 2));
    if (attrs_.channels_first) {
      return Unimplemented("Depthwise convolution on CPU is only supported for NHWC format");
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    switch (kind_) {
      case ConvolutionKind::kForward: {
        const Tensor &input = context.input(0), &filter = context.input(1);
        ASSIGN_OR_RETURN(const ConvolutionSize size, SizeOf(input.shape(), filter.shape()));
        ASSIGN_OR_RETURN(const Shape shape, attrs_.OutputShape(size.batch, size.windows, size.out_channels));
        return Run(context, size, &input, &filter, nullptr, shape);
      }
      case ConvolutionKind::kBackpropInput: {
        ASSIGN_OR_RETURN(const Shape shape, FromSizes(context.input(0), "input_sizes"));
        const Tensor &filter = context.input(1), &dy = context.input(2);
        ASSIGN_OR_RETURN(const ConvolutionSize size, SizeOf(shape, filter.shape()));
        RETURN_IF_ERROR(CheckOutput(size, dy));
        return Run(context, size, nullptr, &filter, &dy, shape);
      }
      case ConvolutionKind::kBackpropFilter:
        break;
    }
    ASSIGN_OR_RETURN(const Shape shape, FromSizes(context.input(1), "filter_sizes"));
    const Tensor &input = context.input(0), &dy = context.input(2);
    ASSIGN_OR_RETURN(const ConvolutionSize size, SizeOf(input.shape(), shape));
    RETURN_IF_ERROR(CheckOutput(size, dy));
    return Run(context, size, &input, nullptr, &dy, shape);
  }

 private:
  static absl::StatusOr<Shape> FromSizes(const Tensor& sizes, const char* name) {
    if (sizes.rank() != 1) return InvalidArgument(name, " input must be 1-dim, not ", sizes.rank());
    return Shape::Make(Dims(sizes.data<int32_t>(), sizes.data<int32_t>() + sizes.num_elements()));
  }

  absl::StatusOr<ConvolutionSize> SizeOf(const Shape& input, const Shape& filter) const {
    if (input.rank() != 4) return InvalidArgument("input must be 4-dimensional", input);
    if (filter.rank() != 4) return InvalidArgument("filter must be 4-dimensional: ", filter);
    if (input.dim(3) != filter.dim(2)) {
      return InvalidArgument("input and filter must have the same depth: ", input.dim(3), " vs ", filter.dim(2));
    }
    ConvolutionSize size;
    size.batch = input.dim(0);
    size.in_channels = size.groups = std::max<int64_t>(1, input.dim(3));
    size.out_channels = input.dim(3) * filter.dim(3);
    ASSIGN_OR_RETURN(size.windows, attrs_.Slide(input.dims(), filter.dims().subspan(0, 2)));
    return size;
  }

  absl::Status CheckOutput(const ConvolutionSize& size, const Tensor& dy) const {
    ASSIGN_OR_RETURN(const Shape shape, attrs_.OutputShape(size.batch, size.windows, size.out_channels));
    if (dy.shape() == shape) return absl::OkStatus();
    return InvalidArgument("out_backprop has shape ", dy.shape(), ", expected ", shape);
  }

  absl::Status Run(KernelContext& context, const ConvolutionSize& size, const Tensor* in, const Tensor* filter,
                   const Tensor* out, const Shape& shape) const {
    ASSIGN_OR_RETURN(Tensor * output, context.Allocate(0, shape));
    const bool half = IsHalfPrecision(output->dtype());
    Tensor result = *output;
    if (half) {
      ASSIGN_OR_RETURN(result, context.AllocateTemporary(kFloat, shape));
    }
    std::fill_n(static_cast<char*>(result.raw()), result.num_elements() * ElementSize(result.dtype()), 0);
    std::vector<Tensor> wide(3);
    const Tensor* const operands[] = {in, filter, out};
    bool empty = result.num_elements() == 0;
    for (int i = 0; i < 3; ++i) {
      if (operands[i] == nullptr) continue;
      empty = empty || operands[i]->num_elements() == 0;
      wide[i] = *operands[i];
      if (!half) continue;
      ASSIGN_OR_RETURN(wide[i], context.AllocateTemporary(kFloat, operands[i]->shape()));
      HalfToFloat(operands[i]->dtype(), operands[i]->raw(), static_cast<float*>(wide[i].raw()),
                  operands[i]->num_elements());
    }
    if (!empty) {
      RETURN_IF_ERROR(Dispatch(Types<float, double>(), result.dtype(), [&]<typename T>() {
        return RunTyped<T>(context, kind_, size, wide[0].raw(), wide[1].raw(), wide[2].raw(), result.raw());
      }));
    }
    if (half) {
      FloatToHalf(output->dtype(), static_cast<const float*>(result.raw()), output->raw(), result.num_elements());
    }
    return absl::OkStatus();
  }

  const ConvolutionKind kind_;
  WindowAttrs attrs_;
};

absl::Status DepthwiseShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const WindowAttrs attrs, WindowAttrs::Read(c.node().def(), 2));
  ASSIGN_OR_RETURN(const PartialShape input, c.WithRank(0, 4));
  ASSIGN_OR_RETURN(const PartialShape filter, c.WithRank(1, 4));
  const int64_t in = input.dim(attrs.channel_dim()), depth = filter.dim(2);
  if (in >= 0 && depth >= 0 && in != depth) {
    return InvalidArgument("Dimensions must be equal, but are ", in, " and ", depth);
  }
  const int64_t channels = std::max(in, depth), multiplier = filter.dim(3);
  ASSIGN_OR_RETURN(PartialShape output,
                   attrs.InferOutput(input, filter.dims().subspan(0, 2),
                                     channels < 0 || multiplier < 0 ? PartialShape::kUnknown : channels * multiplier));
  c.set_output(0, std::move(output));
  return absl::OkStatus();
}

absl::Status DepthwiseGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output x = g.input(0), filter = g.input(1);
  const std::vector<AttrArg> attrs = ConvAttrs(*g.node());
  g.set_dx(0, Output(s.Add("DepthwiseConv2dNativeBackpropInput", {ShapeOf(s, x), filter, g.dy()}, attrs)));
  g.set_dx(1, Output(s.Add("DepthwiseConv2dNativeBackpropFilter", {x, ShapeOf(s, filter), g.dy()}, attrs)));
  return absl::OkStatus();
}

absl::Status DepthwiseInputGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const std::vector<AttrArg> attrs = ConvAttrs(*g.node());
  g.set_dx(1,
           Output(s.Add("DepthwiseConv2dNativeBackpropFilter", {g.dy(), ShapeOf(s, g.input(1)), g.input(2)}, attrs)));
  g.set_dx(2, Output(s.Add("DepthwiseConv2dNative", {g.dy(), g.input(1)}, attrs)));
  return absl::OkStatus();
}

absl::Status DepthwiseFilterGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const std::vector<AttrArg> attrs = ConvAttrs(*g.node());
  g.set_dx(0, Output(s.Add("DepthwiseConv2dNativeBackpropInput", {ShapeOf(s, g.input(0)), g.dy(), g.input(2)}, attrs)));
  g.set_dx(2, Output(s.Add("DepthwiseConv2dNative", {g.input(0), g.dy()}, attrs)));
  return absl::OkStatus();
}

Op WithConvAttrs(Op& op) {
  return op.Output("output: T")
      .Attr("T: {half, bfloat16, float, double}")
      .Attr("strides: list(int)")
      .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
      .Attr("explicit_paddings: list(int) = []")
      .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
      .Attr("dilations: list(int) = [1, 1, 1, 1]");
}

const OpRegistration kDepthwiseConv2dOps[] = {
    WithConvAttrs(Op("DepthwiseConv2dNative").Input("input: T").Input("filter: T"))
        .Shape(DepthwiseShape)
        .Kernel<DepthwiseKernel>(ConvolutionKind::kForward)
        .Gradient(DepthwiseGradient),
    WithConvAttrs(Op("DepthwiseConv2dNativeBackpropInput")
                      .Input("input_sizes: int32")
                      .Input("filter: T")
                      .Input("out_backprop: T"))
        .Shape(ShapeOfSizes<0, 4>)
        .Kernel<DepthwiseKernel>(ConvolutionKind::kBackpropInput)
        .Gradient(DepthwiseInputGradient),
    WithConvAttrs(Op("DepthwiseConv2dNativeBackpropFilter")
                      .Input("input: T")
                      .Input("filter_sizes: int32")
                      .Input("out_backprop: T"))
        .Shape(ShapeOfSizes<1, 4>)
        .Kernel<DepthwiseKernel>(ConvolutionKind::kBackpropFilter)
        .Gradient(DepthwiseFilterGradient),
};

}  // namespace

Output DepthwiseConv2dNative(const Scope& s, Output input, Output filter, const std::vector<int64_t>& strides,
                             Padding padding, const ConvOptions& options) {
  std::vector<AttrArg> attrs{{"strides", strides}, {"padding", NameOf(padding)}};
  if (!options.explicit_paddings.empty()) attrs.emplace_back("explicit_paddings", options.explicit_paddings);
  if (!options.dilations.empty()) attrs.emplace_back("dilations", options.dilations);
  attrs.emplace_back("data_format", NameOf(options.data_format));
  return s.Add("DepthwiseConv2dNative", {input, filter}, std::move(attrs));
}

}  // namespace thalweg
