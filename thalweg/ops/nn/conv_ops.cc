// SPDX-License-Identifier: Apache-2.0
// Conv2D and Conv3D: convolution of images [batch, height, width, channels] or
// volumes [batch, depth, height, width, channels] with a filter [window...,
// input channels, output channels], and the gradients by input and filter.
// convolver.h has the sum. Of Conv2D the input may have several times the
// channels of the filter: then each group of output channels sees its part.
#include <algorithm>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/fused/fused_epilogue.h"
#include "thalweg/ops/nn/conv_attrs.h"
#include "thalweg/ops/nn/convolver.h"
#include "thalweg/ops/nn_ops.h"

namespace thalweg {
namespace {

// The sizes of a convolution, checked.
absl::StatusOr<ConvolutionSize> SizeOf(const WindowAttrs& attrs, const Shape& input, const Shape& filter) {
  if (input.rank() != attrs.rank()) return InvalidArgument("input must be ", attrs.rank(), "-dimensional", input);
  if (filter.rank() != attrs.rank()) return InvalidArgument("filter must be ", attrs.rank(), "-dimensional: ", filter);
  const int64_t depth = filter.dim(attrs.rank() - 2);
  ConvolutionSize size;
  size.batch = input.dim(0);
  size.in_channels = input.dim(attrs.channel_dim());
  size.out_channels = filter.dim(attrs.rank() - 1);
  if (filter.num_elements() == 0) {
    return InvalidArgument("filter must not have zero elements (i.e. all dimensions must be non-zero)");
  }
  if (size.in_channels % depth != 0) {
    return InvalidArgument("input depth must be evenly divisible by filter depth: ", size.in_channels, " vs ", depth);
  }
  size.groups = std::max<int64_t>(1, size.in_channels / depth);
  if (size.out_channels % size.groups != 0) {
    return InvalidArgument("output depth must be evenly divisible by number of groups: ", size.out_channels, " vs ",
                           size.groups);
  }
  ASSIGN_OR_RETURN(size.windows, attrs.Slide(input.dims(), filter.dims().subspan(0, attrs.spatial)));
  return size;
}

class ConvKernel : public Kernel {
 public:
  explicit ConvKernel(int spatial) : spatial_(spatial) {}

  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(attrs_, WindowAttrs::Read(init.node().def(), spatial_));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    const Tensor& filter = context.input(1);
    if (attrs_.channels_first) {
      if (spatial_ == 3) {
        return InvalidArgument("CPU implementation of Conv3D currently only supports the NHWC tensor format.");
      }
      return Unimplemented(
          "The Conv2D op currently only supports the NHWC tensor format on the CPU. The op was given the format: NCHW");
    }
    ASSIGN_OR_RETURN(const ConvolutionSize size, SizeOf(attrs_, input.shape(), filter.shape()));
    ASSIGN_OR_RETURN(const Shape shape, attrs_.OutputShape(size.batch, size.windows, size.out_channels));
    ASSIGN_OR_RETURN(Tensor * output, context.Allocate(0, shape));
    RETURN_IF_ERROR(convolver_.Run(context, size, input, filter, output));
    return Finish(context, output);
  }

 protected:
  // What a fused op does to the result.
  virtual absl::Status Finish(KernelContext& context, Tensor* output) { return absl::OkStatus(); }

 private:
  const int spatial_;
  WindowAttrs attrs_;
  Convolver convolver_{ConvolutionKind::kForward};
};

// _FusedConv2D: a convolution with the ops that follow it.
class FusedConvKernel final : public ConvKernel {
 public:
  FusedConvKernel() : ConvKernel(2) {}

  absl::Status Init(const KernelInit& init) override {
    RETURN_IF_ERROR(ConvKernel::Init(init));
    ASSIGN_OR_RETURN(const int64_t host_args, init.Attr<int64_t>("num_host_args"));
    ASSIGN_OR_RETURN(const std::string filter_format, init.Attr<std::string>("filter_format"));
    if (host_args != 0 || filter_format != "HWIO") {
      return Unimplemented("_FusedConv2D takes only filters of format HWIO and no host_args, got ", filter_format,
                           " and ", host_args);
    }
    ASSIGN_OR_RETURN(epilogue_, FusedEpilogue::Read(init.node().def()));
    return absl::OkStatus();
  }

 private:
  absl::Status Finish(KernelContext& context, Tensor* output) override { return epilogue_.Apply(context, output); }

  FusedEpilogue epilogue_;
};

// Conv: of images or volumes, as the rank says, with any number of batch
// dimensions.
class GenericConvKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    const tensorflow::NodeDef& def = init.node().def();
    ASSIGN_OR_RETURN(const std::string format, GetAttr<std::string>(def, "data_format"));
    ASSIGN_OR_RETURN(attrs_.padding, GetAttr<std::string>(def, "padding"));
    ASSIGN_OR_RETURN(attrs_.explicit_paddings, GetAttr<std::vector<int64_t>>(def, "explicit_paddings"));
    ASSIGN_OR_RETURN(attrs_.strides, GetAttr<std::vector<int64_t>>(def, "strides"));
    ASSIGN_OR_RETURN(attrs_.dilations, GetAttr<std::vector<int64_t>>(def, "dilations"));
    ASSIGN_OR_RETURN(batch_dims_, GetAttr<int64_t>(def, "batch_dims"));
    ASSIGN_OR_RETURN(const int64_t groups, GetAttr<int64_t>(def, "groups"));
    if (groups != 1) return Unimplemented("Grouped/Depthwise Convolutions are not supported yet.");
    if (format != "CHANNELS_LAST") {
      return Unimplemented(
          "The Conv op currently only supports the CHANNELS_LAST format on the CPU. The op was given the format: ",
          format);
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor &input = context.input(0), &filter = context.input(1);
    const int64_t spatial = input.rank() - batch_dims_ - 1;
    if (spatial != 2 && spatial != 3) {
      return InvalidArgument("The input must have 2 or 3 spatial dimensions but got ", spatial);
    }
    WindowAttrs attrs = attrs_;
    attrs.spatial = static_cast<int>(spatial);
    RETURN_IF_ERROR(attrs.Check());
    const int outer = static_cast<int>(batch_dims_);
    if (outer < 0) return InvalidArgument("batch_dims must be >= 0, got ", batch_dims_);
    Dims dims{input.shape().Product(0, outer)};
    dims.insert(dims.end(), input.shape().dims().begin() + outer, input.shape().dims().end());
    const Tensor flat = input.WithShape(Shape(dims));
    ASSIGN_OR_RETURN(const ConvolutionSize size, SizeOf(attrs, flat.shape(), filter.shape()));
    if (size.groups != 1) {
      return InvalidArgument("Input depth must be equal to filter depth: ", size.in_channels, " vs ",
                             filter.dim(filter.rank() - 2));
    }
    ASSIGN_OR_RETURN(const Shape shape, attrs.OutputShape(size.batch, size.windows, size.out_channels));
    Dims out_dims(input.shape().dims().begin(), input.shape().dims().begin() + outer);
    out_dims.insert(out_dims.end(), shape.dims().begin() + 1, shape.dims().end());
    ASSIGN_OR_RETURN(const Shape out_shape, Shape::Make(out_dims));
    ASSIGN_OR_RETURN(Tensor * output, context.Allocate(0, out_shape));
    return convolver_.Run(context, size, flat, filter, output);
  }

 private:
  WindowAttrs attrs_;
  int64_t batch_dims_ = 1;
  Convolver convolver_{ConvolutionKind::kForward};
};

// The shape that a vector of sizes describes.
absl::StatusOr<Shape> ShapeFromSizes(const Tensor& sizes) {
  if (sizes.rank() != 1) return InvalidArgument("sizes must be 1-dim, not ", sizes.rank());
  Dims dims(sizes.num_elements());
  for (int64_t i = 0; i < sizes.num_elements(); ++i) {
    dims[i] = sizes.dtype() == kInt64 ? sizes.data<int64_t>()[i] : sizes.data<int32_t>()[i];
  }
  return Shape::Make(dims);
}

// Both gradients: with respect to the input or the filter. The shape of the result is a vector of
// sizes or, in V2, that of a tensor.
class ConvBackpropKernel : public Kernel {
 public:
  ConvBackpropKernel(ConvolutionKind kind, int spatial, bool by_example)
      : kind_(kind), spatial_(spatial), by_example_(by_example), convolver_(kind) {}

  absl::Status Init(const KernelInit& init) override {
    label_ = init.node().op();
    ASSIGN_OR_RETURN(attrs_, WindowAttrs::Read(init.node().def(), spatial_));
    if (attrs_.channels_first) {
      return InvalidArgument(label_, " only supports ", spatial_ == 2 ? "NHWC" : "NDHWC", " on the CPU.");
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const bool to_input = kind_ == ConvolutionKind::kBackpropInput;
    const Tensor& sizes = context.input(to_input ? 0 : 1);
    const Tensor& other = context.input(to_input ? 1 : 0);
    const Tensor& dy = context.input(2);
    if (dy.rank() != attrs_.rank()) {
      return InvalidArgument(label_, ": out_backprop must be ", attrs_.rank(), "-dimensional");
    }
    ASSIGN_OR_RETURN(const Shape shape, ResultShape(sizes, other, dy));
    const Shape& input = to_input ? shape : other.shape();
    const Shape& filter = to_input ? other.shape() : shape;
    ASSIGN_OR_RETURN(const ConvolutionSize size, SizeOf(attrs_, input, filter));
    if (size.groups > 1) {
      return InvalidArgument(
          "Gradients for grouped convolutions are not supported on CPU. Please file a feature request if you run into "
          "this issue. Computed input depth ",
          size.in_channels, " doesn't match filter input depth ", filter.dim(attrs_.rank() - 2));
    }
    RETURN_IF_ERROR(CheckOutput(size, dy.shape()));
    ASSIGN_OR_RETURN(Tensor * result, context.Allocate(0, shape));
    return convolver_.Run(context, size, other, dy, result);
  }

 private:
  absl::StatusOr<Shape> ResultShape(const Tensor& sizes, const Tensor& filter, const Tensor& dy) const {
    if (by_example_) return sizes.shape();
    if (kind_ != ConvolutionKind::kBackpropInput || spatial_ != 2) return ShapeFromSizes(sizes);
    if (sizes.rank() != 1) return InvalidArgument(label_, ": input_sizes input must be 1-dim, not ", sizes.rank());
    if (sizes.num_elements() == 4) return ShapeFromSizes(sizes);
    if (sizes.num_elements() != 2 || filter.rank() != 4) {
      return InvalidArgument(label_,
                             " requires input_sizes to contain 4 values or 2 values, but got: ", sizes.num_elements());
    }
    // The spatial dimensions only.
    return Shape::Make({dy.dim(0), sizes.data<int32_t>()[0], sizes.data<int32_t>()[1], filter.dim(2)});
  }

  absl::Status CheckOutput(const ConvolutionSize& size, const Shape& dy) const {
    if (dy.dim(0) != size.batch) {
      return InvalidArgument(label_,
                             ": input and out_backprop must have the same batch size. Input batch: ", size.batch,
                             ", outbackprop batch: ", dy.dim(0), ", batch_dim: 0");
    }
    if (dy.dim(attrs_.channel_dim()) != size.out_channels) {
      return InvalidArgument(label_, ": filter and out_backprop must have the same out_depth");
    }
    for (int i = 0; i < spatial_; ++i) {
      const SlidingWindow& w = size.windows[3 - spatial_ + i];
      const int64_t actual = dy.dim(attrs_.spatial_dim(i));
      if (actual == w.output) continue;
      return InvalidArgument(label_, ": Size of out_backprop doesn't match computed: actual = ", actual,
                             ", computed = ", w.output, " spatial_dim: ", attrs_.spatial_dim(i), " input: ", w.input,
                             " filter: ", w.window, " output: ", actual, " stride: ", w.stride,
                             " dilation: ", w.dilation);
    }
    return absl::OkStatus();
  }

  const ConvolutionKind kind_;
  const int spatial_;
  const bool by_example_;
  std::string label_;
  WindowAttrs attrs_;
  Convolver convolver_;
};

// ---- Shapes ----

template <int spatial>
absl::Status ConvShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const WindowAttrs attrs, WindowAttrs::Read(c.node().def(), spatial));
  ASSIGN_OR_RETURN(const PartialShape input, c.WithRank(0, attrs.rank()));
  ASSIGN_OR_RETURN(const PartialShape filter, c.WithRank(1, attrs.rank()));
  const int64_t in = input.dim(attrs.channel_dim()), depth = filter.dim(attrs.rank() - 2);
  if (in > 0 && depth > 0 && in % depth != 0) {
    return InvalidArgument("Depth of input (", in, ") is not a multiple of input depth of filter (", depth, ")");
  }
  ASSIGN_OR_RETURN(PartialShape output,
                   attrs.InferOutput(input, filter.dims().subspan(0, spatial), filter.dim(attrs.rank() - 1)));
  c.set_output(0, std::move(output));
  return absl::OkStatus();
}

template <int i>
absl::Status ShapeOfInput(ShapeContext& c) {
  c.set_output(0, c.input(i));
  return absl::OkStatus();
}

// ---- Gradients ----

struct ConvNames {
  const char* forward;
  const char* by_input;
  const char* by_filter;
};
template <int spatial>
inline constexpr ConvNames kNames =
    spatial == 2 ? ConvNames{"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"}
                 : ConvNames{"Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2"};

template <int spatial>
absl::Status ConvGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output x = g.input(0), filter = g.input(1);
  const std::vector<AttrArg> attrs = ConvAttrs(*g.node());
  g.set_dx(0, Output(s.Add(kNames<spatial>.by_input, {ShapeOf(s, x), filter, g.dy()}, attrs)));
  g.set_dx(1, Output(s.Add(kNames<spatial>.by_filter, {x, ShapeOf(s, filter), g.dy()}, attrs)));
  return absl::OkStatus();
}

// Each of the three is linear in both of its operands, and the derivatives are
// the other two.
template <int spatial>
absl::Status BackpropInputGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output filter = g.input(1), dy = g.input(2);
  const std::vector<AttrArg> attrs = ConvAttrs(*g.node());
  g.set_dx(1, Output(s.Add(kNames<spatial>.by_filter, {g.dy(), ShapeOf(s, filter), dy}, attrs)));
  g.set_dx(2, Output(s.Add(kNames<spatial>.forward, {g.dy(), filter}, attrs)));
  return absl::OkStatus();
}

template <int spatial>
absl::Status BackpropFilterGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output x = g.input(0), dy = g.input(2);
  const std::vector<AttrArg> attrs = ConvAttrs(*g.node());
  g.set_dx(0, Output(s.Add(kNames<spatial>.by_input, {ShapeOf(s, x), g.dy(), dy}, attrs)));
  g.set_dx(2, Output(s.Add(kNames<spatial>.forward, {x, g.dy()}, attrs)));
  return absl::OkStatus();
}

// ---- Registration ----

Op Images(const char* name, absl::string_view first, absl::string_view second, absl::string_view third,
          absl::string_view types) {
  Op op(name);
  op.Input(first).Input(second);
  if (!third.empty()) op.Input(third);
  return op.Output("output: T")
      .Attr(absl::StrCat("T: {", types, "}"))
      .Attr("strides: list(int)")
      .Attr("use_cudnn_on_gpu: bool = true")
      .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
      .Attr("explicit_paddings: list(int) = []")
      .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
      .Attr("dilations: list(int) = [1, 1, 1, 1]");
}

Op Volumes(const char* name, absl::string_view first, absl::string_view second, absl::string_view third,
           bool first_version) {
  Op op(name);
  op.Input(first).Input(second);
  if (!third.empty()) op.Input(third);
  op.Output("output: T")
      .Attr(first_version ? "T: {half, float, double}" : "T: {half, bfloat16, float, double}")
      .Attr("strides: list(int) >= 5")
      .Attr("padding: {'SAME', 'VALID'}");
  if (!first_version) op.Attr("data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'");
  return op.Attr("dilations: list(int) = [1, 1, 1, 1, 1]");
}

constexpr absl::string_view kFloats = "half, bfloat16, float, double";
constexpr absl::string_view kFloatsAndInt = "half, bfloat16, float, double, int32";
constexpr auto kByInput = ConvolutionKind::kBackpropInput;
constexpr auto kByFilter = ConvolutionKind::kBackpropFilter;

const OpRegistration kConvOps[] = {
    Op("Conv")
        .Input("input: T")
        .Input("filter: T")
        .Output("output: T")
        .Attr("T: {half, bfloat16, float, double, int32}")
        .Attr("strides: list(int)")
        .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
        .Attr("explicit_paddings: list(int) = []")
        .Attr("data_format: {'CHANNELS_FIRST', 'CHANNELS_LAST'} = 'CHANNELS_LAST'")
        .Attr("dilations: list(int) = []")
        .Attr("batch_dims: int = 1")
        .Attr("groups: int = 1")
        .Shape(shapes::Unknown)
        .Kernel<GenericConvKernel>(),
    Images("Conv2D", "input: T", "filter: T", "", kFloatsAndInt)
        .Shape(ConvShape<2>)
        .Kernel<ConvKernel>(2)
        .Gradient(ConvGradient<2>),
    Op("_FusedConv2D")
        .Input("input: T")
        .Input("filter: T")
        .Input("args: TArgs")
        .Input("host_args: num_host_args * float")
        .Output("output: T")
        .Attr("T: {half, float, double, int8, qint8}")
        .Attr("TArgs: list(type) >= 1")
        .Attr("num_args: int >= 0")
        .Attr("num_host_args: int >= 0 = 0")
        .Attr("strides: list(int)")
        .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
        .Attr("explicit_paddings: list(int) = []")
        .Attr("data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'")
        .Attr("filter_format: {'HWIO', 'OIHW', 'OIHW_VECT_I'} = 'HWIO'")
        .Attr("dilations: list(int) = [1, 1, 1, 1]")
        .Attr("use_cudnn_on_gpu: bool = true")
        .Attr("fused_ops: list(string) = []")
        .Attr("epsilon: float = 0.0001")
        .Attr("leakyrelu_alpha: float = 0.2")
        .Shape(ConvShape<2>)
        .Kernel<FusedConvKernel>()
        .NotDifferentiable(),
    Images("Conv2DBackpropInput", "input_sizes: int32", "filter: T", "out_backprop: T", kFloatsAndInt)
        .Shape(ShapeOfSizes<0, 4>)
        .Kernel<ConvBackpropKernel>(kByInput, 2, false)
        .Gradient(BackpropInputGradient<2>),
    Images("Conv2DBackpropInputV2", "input: T", "filter: T", "out_backprop: T", kFloatsAndInt)
        .Shape(ShapeOfInput<0>)
        .Kernel<ConvBackpropKernel>(kByInput, 2, true),
    Images("Conv2DBackpropFilter", "input: T", "filter_sizes: int32", "out_backprop: T", kFloats)
        .Shape(ShapeOfSizes<1, 4>)
        .Kernel<ConvBackpropKernel>(kByFilter, 2, false)
        .Gradient(BackpropFilterGradient<2>),
    Images("Conv2DBackpropFilterV2", "input: T", "filter: T", "out_backprop: T", kFloats)
        .Shape(ShapeOfInput<1>)
        .Kernel<ConvBackpropKernel>(kByFilter, 2, true),
    Volumes("Conv3D", "input: T", "filter: T", "", false)
        .Shape(ConvShape<3>)
        .Kernel<ConvKernel>(3)
        .Gradient(ConvGradient<3>),
    Volumes("Conv3DBackpropInput", "input: T", "filter: T", "out_backprop: T", true)
        .Shape(ShapeOfInput<0>)
        .Kernel<ConvBackpropKernel>(kByInput, 3, true),
    Volumes("Conv3DBackpropFilter", "input: T", "filter: T", "out_backprop: T", true)
        .Shape(ShapeOfInput<1>)
        .Kernel<ConvBackpropKernel>(kByFilter, 3, true),
    Volumes("Conv3DBackpropInputV2", "input_sizes: Tshape", "filter: T", "out_backprop: T", false)
        .Attr("Tshape: {int32, int64} = DT_INT32")
        .Shape(ShapeOfSizes<0, 5>)
        .Kernel<ConvBackpropKernel>(kByInput, 3, false)
        .Gradient(BackpropInputGradient<3>),
    Volumes("Conv3DBackpropFilterV2", "input: T", "filter_sizes: int32", "out_backprop: T", false)
        .Shape(ShapeOfSizes<1, 5>)
        .Kernel<ConvBackpropKernel>(kByFilter, 3, false)
        .Gradient(BackpropFilterGradient<3>),
};

std::vector<AttrArg> AttrsOf(const std::vector<int64_t>& strides, Padding padding, const ConvOptions& o,
                             int spatial = 2) {
  std::vector<AttrArg> attrs{{"strides", strides}, {"padding", NameOf(padding)}};
  if (!o.explicit_paddings.empty()) attrs.emplace_back("explicit_paddings", o.explicit_paddings);
  if (!o.dilations.empty()) attrs.emplace_back("dilations", o.dilations);
  attrs.emplace_back("data_format", NameOf(o.data_format, spatial));
  return attrs;
}

}  // namespace

Output Conv2D(const Scope& s, Output input, Output filter, const std::vector<int64_t>& strides, Padding padding,
              const ConvOptions& options) {
  return s.Add("Conv2D", {input, filter}, AttrsOf(strides, padding, options));
}
Output Conv2DBackpropInput(const Scope& s, const IntsArg& input_sizes, Output filter, Output out_backprop,
                           const std::vector<int64_t>& strides, Padding padding, const ConvOptions& options) {
  return s.Add("Conv2DBackpropInput", {input_sizes.AsTensor(s, "input_sizes"), filter, out_backprop},
               AttrsOf(strides, padding, options));
}
Output Conv2DBackpropFilter(const Scope& s, Output input, const IntsArg& filter_sizes, Output out_backprop,
                            const std::vector<int64_t>& strides, Padding padding, const ConvOptions& options) {
  return s.Add("Conv2DBackpropFilter", {input, filter_sizes.AsTensor(s, "filter_sizes"), out_backprop},
               AttrsOf(strides, padding, options));
}
Output Conv3D(const Scope& s, Output input, Output filter, const std::vector<int64_t>& strides, Padding padding,
              const ConvOptions& options) {
  return s.Add("Conv3D", {input, filter}, AttrsOf(strides, padding, options, 3));
}

}  // namespace thalweg
