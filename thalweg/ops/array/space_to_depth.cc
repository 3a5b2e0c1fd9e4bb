// SPDX-License-Identifier: Apache-2.0
// SpaceToDepth moves blocks of block_size x block_size pixels into the channels;
// DepthToSpace moves them back. For NHWC:
//
//   output[b, y, x, (by * block_size + bx) * depth + c] =
//       input[b, y * block_size + by, x * block_size + bx, c]
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

// The positions of the dimensions in the data format.
struct ImageDims {
  int height = 1;
  int width = 2;
  int depth = 3;
};

absl::StatusOr<ImageDims> DimsOf(absl::string_view format) {
  if (format == "NHWC") return ImageDims{};
  if (format == "NCHW") return ImageDims{.height = 2, .width = 3, .depth = 1};
  return Unimplemented("data_format ", format, " is not supported on CPU");
}

class BlockKernel : public Kernel {
 public:
  explicit BlockKernel(bool to_depth) : to_depth_(to_depth) {}
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(block_, init.Attr<int64_t>("block_size"));
    ASSIGN_OR_RETURN(const std::string format, init.Attr<std::string>("data_format"));
    ASSIGN_OR_RETURN(at_, DimsOf(format));
    if (!to_depth_ && format != "NHWC") {  // as in TensorFlow, whose programs look for the text
      return InvalidArgument("No OpKernel was registered to support Op 'DepthToSpace' with data_format ", format,
                             " on CPU. Registered: data_format in [NHWC]");
    }
    if (block_ < 2 || block_ > 1 << 20) return InvalidArgument("Block size should be > 1, but was: ", block_);
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    if (input.rank() != 4) return InvalidArgument("Input rank should be 4 instead of ", input.rank());
    Dims space(input.shape().dims().begin(), input.shape().dims().end());
    if (to_depth_) {
      const int64_t height = space[at_.height], width = space[at_.width];
      if (height % block_ != 0 || width % block_ != 0) {
        return InvalidArgument("Image width ", width, " and height ", height,
                               " should be divisible by block_size: ", block_);
      }
    } else {
      const int64_t depth = space[at_.depth];
      if (depth % (block_ * block_) != 0) {
        return InvalidArgument("Input depth dimension ", depth, " should be divisible by: ", block_ * block_);
      }
      space[at_.depth] /= block_ * block_;
      for (const int d : {at_.height, at_.width}) {
        if (__builtin_mul_overflow(space[d], block_, &space[d])) return InvalidArgument("image too large");
      }
    }
    Dims deep = space;  // the same image with the blocks in the channels
    deep[at_.height] /= block_;
    deep[at_.width] /= block_;
    deep[at_.depth] *= block_ * block_;
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(to_depth_ ? deep : space));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    const Dims in_space = RowMajorStrides(space), in_deep = RowMajorStrides(deep);
    const int64_t depth = space[at_.depth];
    // Batch, y, x, y in block, x in block, channel.
    const Dims dims = {space[0], deep[at_.height], deep[at_.width], block_, block_, depth};
    const StridedPlace in_image{.strides = {in_space[0], block_ * in_space[at_.height], block_ * in_space[at_.width],
                                            in_space[at_.height], in_space[at_.width], in_space[at_.depth]}};
    const StridedPlace in_channels{.strides = {in_deep[0], in_deep[at_.height], in_deep[at_.width],
                                               block_ * depth * in_deep[at_.depth], depth * in_deep[at_.depth],
                                               in_deep[at_.depth]}};
    return CopyStrided(c, dims, input, to_depth_ ? in_image : in_channels, out, to_depth_ ? in_channels : in_image);
  }

 private:
  const bool to_depth_;
  int64_t block_ = 0;
  ImageDims at_;
};

absl::Status BlockShape(ShapeContext& c, bool to_depth) {
  ASSIGN_OR_RETURN(const PartialShape input, c.WithRank(0, 4));
  ASSIGN_OR_RETURN(const int64_t block, c.Attr<int64_t>("block_size"));
  ASSIGN_OR_RETURN(const std::string format, c.Attr<std::string>("data_format"));
  if (format == "NCHW_VECT_C") return absl::OkStatus();
  ASSIGN_OR_RETURN(const ImageDims at, DimsOf(format));
  Dims dims(input.dims().begin(), input.dims().end());
  const auto divide = [&](int d, int64_t by) -> absl::Status {
    if (dims[d] < 0) return absl::OkStatus();
    if (dims[d] % by != 0)
      return InvalidArgument("Dimension size must be evenly divisible by ", by, " but is ", dims[d]);
    dims[d] /= by;
    return absl::OkStatus();
  };
  if (block < 2 || block > 1 << 20) return InvalidArgument("Block size should be > 1, but was: ", block);
  if (to_depth) {
    RETURN_IF_ERROR(divide(at.height, block));
    RETURN_IF_ERROR(divide(at.width, block));
    dims[at.depth] = MultiplyDims(dims[at.depth], block * block);
  } else {
    RETURN_IF_ERROR(divide(at.depth, block * block));
    dims[at.height] = MultiplyDims(dims[at.height], block);
    dims[at.width] = MultiplyDims(dims[at.width], block);
  }
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}
absl::Status SpaceToDepthShape(ShapeContext& c) { return BlockShape(c, true); }
absl::Status DepthToSpaceShape(ShapeContext& c) { return BlockShape(c, false); }

absl::Status BlockGradient(GradientContext& c, absl::string_view inverse) {
  ASSIGN_OR_RETURN(const int64_t block, c.Attr<int64_t>("block_size"));
  ASSIGN_OR_RETURN(const std::string format, c.Attr<std::string>("data_format"));
  c.set_dx(0, Output(c.scope().Add(inverse, {c.dy()}, {{"block_size", block}, {"data_format", format}})));
  return absl::OkStatus();
}
absl::Status SpaceToDepthGradient(GradientContext& c) { return BlockGradient(c, "DepthToSpace"); }
absl::Status DepthToSpaceGradient(GradientContext& c) { return BlockGradient(c, "SpaceToDepth"); }

const OpRegistration kSpaceToDepthOps[] = {
    Op("SpaceToDepth")
        .Input("input: T")
        .Output("output: T")
        .Attr("T: type")
        .Attr("block_size: int >= 2")
        .Attr("data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'")
        .Shape(SpaceToDepthShape)
        .Kernel<BlockKernel>(true)
        .Gradient(SpaceToDepthGradient),
    Op("DepthToSpace")
        .Input("input: T")
        .Output("output: T")
        .Attr("T: type")
        .Attr("block_size: int >= 2")
        .Attr("data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'")
        .Shape(DepthToSpaceShape)
        .Kernel<BlockKernel>(false)
        .Gradient(DepthToSpaceGradient),
};

}  // namespace

Output SpaceToDepth(const Scope& s, Output input, int block_size, const SpaceToDepthOptions& options) {
  return s.Add("SpaceToDepth", {input}, {{"block_size", block_size}, {"data_format", NameOf(options.data_format)}});
}
Output DepthToSpace(const Scope& s, Output input, int block_size, const SpaceToDepthOptions& options) {
  return s.Add("DepthToSpace", {input}, {{"block_size", block_size}, {"data_format", NameOf(options.data_format)}});
}

}  // namespace thalweg
