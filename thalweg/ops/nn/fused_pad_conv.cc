// SPDX-License-Identifier: Apache-2.0
// FusedPadConv2D is MirrorPad and then Conv2D, FusedResizeAndPadConv2D is
// ResizeBilinear before both: for graphs that were made for inference.
#include <algorithm>
#include <array>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/image/image_scale.h"
#include "thalweg/ops/nn/convolver.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

// A spatial dimension of the padded image: how many elements the windows cover, the first of
// them, and where they come from.
struct PaddedSide {
  ResizeScale scale;
  int64_t before = 0;
  int offset = 0;  // whether the mirror is the border element (1) or behind it (0)
  int64_t first = 0;

  Lerp At(int64_t i) const {
    int64_t k = first + i - before;
    if (k < 0) k = offset - 1 - k;
    if (k >= scale.out) k = 2 * scale.out - 1 - offset - k;
    return LerpAt(scale, k);
  }
};

class FusedPadConvKernel : public Kernel {
 public:
  explicit FusedPadConvKernel(bool resize) : resize_(resize) {}

  absl::Status Init(const KernelInit& init) override {
    if (resize_) {
      ASSIGN_OR_RETURN(mode_.align_corners, init.Attr<bool>("resize_align_corners"));
    }
    ASSIGN_OR_RETURN(const std::string mode, init.Attr<std::string>("mode"));
    offset_ = mode == "REFLECT" ? 1 : 0;
    absl::StatusOr<WindowAttrs> attrs = WindowAttrs::Read(init.node().def(), 2);
    if (absl::IsUnimplemented(attrs.status())) return InvalidArgument(attrs.status().message());  // TensorFlow's code
    ASSIGN_OR_RETURN(attrs_, std::move(attrs));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    const Tensor &paddings = context.input(resize_ ? 2 : 1), &filter = context.input(resize_ ? 3 : 2);
    if (input.num_elements() == 0) return InvalidArgument("Input tensor can't be empty");
    if (input.rank() != 4) return InvalidArgument("input must be 4-dimensional", input.shape());
    std::array<PaddedSide, 2> sides;
    for (int i = 0; i < 2; ++i) sides[i].scale = ResizeScale(input.dim(1 + i), input.dim(1 + i), {});
    Shape resized = input.shape();
    if (resize_) {
      ASSIGN_OR_RETURN(const ResizeShapes r, ReadResize(context, mode_));
      sides[0].scale = r.y;
      sides[1].scale = r.x;
      resized = r.shape;
    }
    RETURN_IF_ERROR(CheckPaddings(paddings, resized));
    RETURN_IF_ERROR(CheckFilter(filter, input.dim(3)));
    Dims padded(resized.dims().begin(), resized.dims().end());
    for (int i = 0; i < 2; ++i) {
      sides[i].offset = offset_;
      sides[i].before = ReadInteger(paddings, 2 + 2 * i);
      padded[1 + i] += sides[i].before + ReadInteger(paddings, 3 + 2 * i);
    }
    ConvolutionSize size{.batch = input.dim(0), .in_channels = input.dim(3), .out_channels = filter.dim(3)};
    ASSIGN_OR_RETURN(size.windows, attrs_.Slide(padded, filter.shape().dims().subspan(0, 2)));
    ASSIGN_OR_RETURN(const Shape shape, attrs_.OutputShape(size.batch, size.windows, size.out_channels));
    ASSIGN_OR_RETURN(Tensor * output, context.Allocate(0, shape));
    if (output->num_elements() == 0) return absl::OkStatus();
    // Elements that no window sees are left out on both sides, and not only at the end as Conv2D does it.
    for (int i = 0; i < 2; ++i) {
      SlidingWindow& w = size.windows[1 + i];
      const int64_t seen = (w.output - 1) * w.stride + w.window, rest = w.input - seen;
      if (rest <= 0) continue;
      sides[i].first = (attrs_.padding == "VALID" ? rest - 1 : rest) / 2;
      w.input = padded[1 + i] = seen;
    }
    ASSIGN_OR_RETURN(const Shape padded_shape, Shape::Make(padded));
    ASSIGN_OR_RETURN(Tensor image, context.AllocateTemporary(input.dtype(), padded_shape));
    RETURN_IF_ERROR(Sample(context, input, sides, &image));
    return convolver_.Run(context, size, image, filter, output);
  }

 private:
  absl::Status CheckPaddings(const Tensor& paddings, const Shape& resized) const {
    if (paddings.rank() != 2 || paddings.dim(1) != 2) {
      return InvalidArgument("paddings must be a matrix with 2 columns: ", paddings.shape());
    }
    if (paddings.dim(0) != 4) {
      return InvalidArgument("The first dimension of paddings must be the rank of inputs: 4 ", paddings.shape(), " ",
                             resized);
    }
    for (int d = 0; d < 4; ++d) {
      const int64_t before = ReadInteger(paddings, 2 * d), after = ReadInteger(paddings, 2 * d + 1);
      if (before < 0 || after < 0) return InvalidArgument("paddings must be non-negative: ", before, " ", after);
      if (std::max(before, after) > resized.dim(d) - offset_) {
        return offset_ == 1 ? InvalidArgument("paddings must be less than the dimension size: ", before, ", ", after,
                                              " not less than ", resized.dim(d))
                            : InvalidArgument("paddings must be no greater than the dimension size: ", before, ", ",
                                              after, " greater than ", resized.dim(d));
      }
      if ((d == 0 || d == 3) && before + after > 0) {
        return InvalidArgument("Fused mirror padding only support spatial padding, not ",
                               d == 0 ? "batches: " : "channels: ", before, ", ", after);
      }
    }
    return absl::OkStatus();
  }

  static absl::Status CheckFilter(const Tensor& filter, int64_t depth) {
    if (filter.rank() != 4) return InvalidArgument("filter must be 4-dimensional: ", filter.shape());
    if (filter.dim(2) != depth) {
      return InvalidArgument("input and filter must have the same depth: ", depth, " vs ", filter.dim(2));
    }
    if (filter.num_elements() == 0) {
      return InvalidArgument("filter must not have zero elements (i.e. all dimensions must be non-zero)");
    }
    return absl::OkStatus();
  }

  static absl::Status Sample(KernelContext& context, const Tensor& input, const std::array<PaddedSide, 2>& sides,
                             Tensor* image) {
    const int64_t height = image->dim(1), width = image->dim(2), channels = image->dim(3);
    const int64_t in_height = input.dim(1), in_row = input.dim(2) * channels;
    std::vector<Lerp> xs;
    for (int64_t x = 0; x < width; ++x) xs.push_back(sides[1].At(x));
    return Dispatch(Types<float, double, Half, BFloat16>(), input.dtype(), [&]<typename T>() {
      const T* const from = input.data<T>();
      T* const to = image->mutable_data<T>();
      using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
      context.ParallelFor(image->dim(0) * height, 4.0 * static_cast<double>(width * channels),
                          [&](int64_t begin, int64_t end) {
                            for (int64_t row = begin; row < end; ++row) {
                              const Lerp y = sides[0].At(row % height);
                              const T* const old = from + row / height * in_height * in_row;
                              SampleRow<Wide>(old + y.low * in_row, old + y.high * in_row, static_cast<Wide>(y.weight),
                                              xs, channels, to + row * width * channels);
                            }
                          });
      return absl::OkStatus();
    });
  }
  template <typename Wide, typename T>
  static void SampleRow(const T* top, const T* bottom, Wide weight, const std::vector<Lerp>& xs, int64_t channels,
                        T* to) {
    for (const Lerp& x : xs) {
      for (int64_t c = 0; c < channels; ++c) {
        const auto between = [&](const T* row) {
          const Wide left = static_cast<Wide>(row[x.low * channels + c]);
          return left + (static_cast<Wide>(row[x.high * channels + c]) - left) * static_cast<Wide>(x.weight);
        };
        const Wide above = between(top);
        *to++ = static_cast<T>(above + (between(bottom) - above) * weight);
      }
    }
  }

  const bool resize_;
  ResizeMode mode_;
  int offset_ = 0;
  WindowAttrs attrs_;
  Convolver convolver_{ConvolutionKind::kForward};
};

template <bool resize>
absl::Status FusedPadConvShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape input, c.WithRank(0, 4));
  Dims dims(input.dims().begin(), input.dims().end());
  if (resize) {
    RETURN_IF_ERROR(c.WithRank(1, 1).status());
    const std::optional<Dims> size = ConstantIntegers(c, 1);
    if (size && size->size() != 2) return InvalidArgument("size must have two elements, got ", size->size());
    for (int i = 0; i < 2; ++i) dims[1 + i] = size ? std::max<int64_t>(-1, (*size)[i]) : PartialShape::kUnknown;
  }
  const int at = resize ? 2 : 1;
  ASSIGN_OR_RETURN(const PartialShape paddings, c.WithRank(at, 2));
  RETURN_IF_ERROR(MergeDims(paddings.dim(0), 4).status());
  RETURN_IF_ERROR(MergeDims(paddings.dim(1), 2).status());
  const std::optional<Dims> pads = ConstantIntegers(c, at);
  for (int d = 0; d < 4; ++d) {
    if (pads && ((*pads)[2 * d] < 0 || (*pads)[2 * d + 1] < 0)) {
      return InvalidArgument("Paddings must be non-negative");
    }
    dims[d] = pads ? AddDims(dims[d], (*pads)[2 * d] + (*pads)[2 * d + 1]) : PartialShape::kUnknown;
  }
  ASSIGN_OR_RETURN(const PartialShape filter, c.WithRank(at + 1, 4));
  RETURN_IF_ERROR(MergeDims(dims[3], filter.dim(2)).status());
  const absl::StatusOr<WindowAttrs> attrs = WindowAttrs::Read(c.node().def(), 2);
  if (absl::IsUnimplemented(attrs.status())) {  // the kernel says so
    c.set_output(0, PartialShape::OfRank(4));
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(attrs.status());
  const int64_t sizes[] = {filter.dim(0), filter.dim(1)};
  ASSIGN_OR_RETURN(PartialShape output, attrs->InferOutput(PartialShape(dims), sizes, filter.dim(3)));
  c.set_output(0, std::move(output));
  return absl::OkStatus();
}

const OpRegistration kFusedPadConvOps[] = {
    Op("FusedPadConv2D")
        .Input("input: T")
        .Input("paddings: int32")
        .Input("filter: T")
        .Output("output: T")
        .Attr("T: {half, bfloat16, float, double}")
        .Attr("mode: {'REFLECT', 'SYMMETRIC'}")
        .Attr("strides: list(int)")
        .Attr("padding: {'SAME', 'VALID'}")
        .Shape(FusedPadConvShape<false>)
        .Kernel<FusedPadConvKernel>(false),
    Op("FusedResizeAndPadConv2D")
        .Input("input: T")
        .Input("size: int32")
        .Input("paddings: int32")
        .Input("filter: T")
        .Output("output: T")
        .Attr("T: {half, float, double}")
        .Attr("resize_align_corners: bool = false")
        .Attr("mode: {'REFLECT', 'SYMMETRIC'}")
        .Attr("strides: list(int)")
        .Attr("padding: {'SAME', 'VALID'}")
        .Shape(FusedPadConvShape<true>)
        .Kernel<FusedPadConvKernel>(true),
};

}  // namespace
}  // namespace thalweg
