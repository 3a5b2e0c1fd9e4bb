// SPDX-License-Identifier: Apache-2.0
// SpaceToBatchND pads the dimensions after the first and spreads the elements of
// each block over the batch; BatchToSpaceND puts them together again and crops.
// SpaceToBatch and BatchToSpace are the same for images, with square blocks.
//
//   output[(b1 * B2 + b2) * batch + n, y, x, c] = padded[n, y * B1 + b1, x * B2 + b2, c]
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

// Block sizes, and what to add (or to take away) before and after in each
// dimension of a block.
struct Blocks {
  Dims size;
  Dims before;
  Dims after;

  int rank() const { return static_cast<int>(size.size()); }
};

absl::Status ReadMargins(const Tensor& margins, int rank, absl::string_view what, Blocks* blocks) {
  if (margins.rank() != 2 || margins.dim(0) != rank || margins.dim(1) != 2) {
    return InvalidArgument(what, " should have shape [", rank, ", 2] instead of ", margins.shape());
  }
  for (int i = 0; i < rank; ++i) {
    blocks->before.push_back(ReadInteger(margins, 2 * i));
    blocks->after.push_back(ReadInteger(margins, 2 * i + 1));
    if (blocks->before[i] < 0 || blocks->after[i] < 0) {
      return InvalidArgument(what == "crops" ? "Crops" : "Paddings", " must be non-negative");
    }
  }
  return absl::OkStatus();
}

// Strides of (blocks..., batch, sizes..., rest) on either side: `image` has
// [batch, sizes * block..., rest], `spread` [blocks * batch, sizes..., rest].
struct BlockCopy {
  Dims dims;
  StridedPlace image;
  StridedPlace spread;

  BlockCopy(absl::Span<const int64_t> image_dims, const Blocks& blocks) {
    const int m = blocks.rank();
    const Dims image_strides = RowMajorStrides(image_dims);
    Dims rest(image_dims.begin() + m + 1, image_dims.end());
    dims = blocks.size;
    dims.push_back(image_dims[0]);
    for (int i = 0; i < m; ++i) dims.push_back(image_dims[i + 1] / blocks.size[i]);
    dims.insert(dims.end(), rest.begin(), rest.end());
    spread.strides = RowMajorStrides(dims);
    for (int i = 0; i < m; ++i) image.strides.push_back(image_strides[i + 1]);
    image.strides.push_back(image_strides[0]);
    for (int i = 0; i < m; ++i) image.strides.push_back(blocks.size[i] * image_strides[i + 1]);
    image.strides.insert(image.strides.end(), image_strides.begin() + m + 1, image_strides.end());
  }
};

absl::Status CheckBlocks(const Tensor& input, const Blocks& blocks) {
  if (input.rank() < 1 + blocks.rank()) {
    return InvalidArgument("input rank should be >= ", 1 + blocks.rank(), " instead of ", input.rank());
  }
  for (int i = 0; i < blocks.rank(); ++i) {
    if (blocks.size[i] < 1)
      return InvalidArgument("block_shape must be positive, got block_shape[", i, "] = ", blocks.size[i]);
  }
  return absl::OkStatus();
}

absl::Status SpreadBlocks(KernelContext& c, const Blocks& blocks) {
  const Tensor& input = c.input(0);
  RETURN_IF_ERROR(CheckBlocks(input, blocks));
  const int m = blocks.rank();
  Dims padded(input.shape().dims().begin(), input.shape().dims().end());
  Dims spread = padded;
  StridedPlace inside;
  bool has_margin = false;
  for (int i = 0; i < m; ++i) {
    int64_t& size = padded[i + 1];
    if (__builtin_add_overflow(size, blocks.before[i], &size) || __builtin_add_overflow(size, blocks.after[i], &size)) {
      return InvalidArgument("paddings overflow");
    }
    if (size % blocks.size[i] != 0) {
      return InvalidArgument("padded_shape[", i, "]=", size, " is not divisible by block_shape[", i,
                             "]=", blocks.size[i]);
    }
    spread[i + 1] = size / blocks.size[i];
    if (__builtin_mul_overflow(spread[0], blocks.size[i], &spread[0])) return InvalidArgument("batch size overflows");
    has_margin = has_margin || blocks.before[i] != 0 || blocks.after[i] != 0;
  }
  ASSIGN_OR_RETURN(const Shape padded_shape, Shape::Make(padded));
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make(spread));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  Tensor image = input;
  if (has_margin) {
    ASSIGN_OR_RETURN(image, c.AllocateTemporary(input.dtype(), padded_shape));
    ClearElements(&image);
    inside.strides = RowMajorStrides(padded);
    for (int i = 0; i < m; ++i) inside.offset += blocks.before[i] * inside.strides[i + 1];
    RETURN_IF_ERROR(CopyStrided(c, input.shape().dims(), input, {.strides = RowMajorStrides(input.shape().dims())},
                                &image, inside));
  }
  const BlockCopy copy(padded, blocks);
  return CopyStrided(c, copy.dims, image, copy.image, out, copy.spread);
}

absl::Status JoinBlocks(KernelContext& c, const Blocks& blocks) {
  const Tensor& input = c.input(0);
  RETURN_IF_ERROR(CheckBlocks(input, blocks));
  const int m = blocks.rank();
  Dims joined(input.shape().dims().begin(), input.shape().dims().end());
  int64_t product = 1;
  for (const int64_t size : blocks.size) {
    if (__builtin_mul_overflow(product, size, &product)) return InvalidArgument("Product of block sizes overflows");
  }
  if (joined[0] % product != 0) {
    return InvalidArgument("Input batch dimension (", joined[0], ") is not divisible by product of block sizes (",
                           product, ")");
  }
  joined[0] /= product;
  for (int i = 0; i < m; ++i) {
    if (__builtin_mul_overflow(joined[i + 1], blocks.size[i], &joined[i + 1])) return InvalidArgument("sizes overflow");
  }
  Dims cropped = joined;
  bool has_margin = false;
  for (int i = 0; i < m; ++i) {
    if (blocks.before[i] > joined[i + 1] || blocks.after[i] > joined[i + 1] - blocks.before[i]) {
      return InvalidArgument("cropped_shape[", i, "]=", joined[i + 1] - blocks.before[i] - blocks.after[i],
                             " must be non-negative");
    }
    cropped[i + 1] -= blocks.before[i] + blocks.after[i];
    has_margin = has_margin || blocks.before[i] != 0 || blocks.after[i] != 0;
  }
  ASSIGN_OR_RETURN(const Shape joined_shape, Shape::Make(joined));
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make(cropped));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  const BlockCopy copy(joined, blocks);
  if (!has_margin) return CopyStrided(c, copy.dims, input, copy.spread, out, copy.image);
  ASSIGN_OR_RETURN(Tensor image, c.AllocateTemporary(input.dtype(), joined_shape));
  RETURN_IF_ERROR(CopyStrided(c, copy.dims, input, copy.spread, &image, copy.image));
  StridedPlace inside{.strides = RowMajorStrides(joined)};
  for (int i = 0; i < m; ++i) inside.offset += blocks.before[i] * inside.strides[i + 1];
  return CopyStrided(c, cropped, image, inside, out, {.strides = RowMajorStrides(cropped)});
}

absl::StatusOr<Blocks> ReadBlocks(KernelContext& c, absl::string_view margins) {
  if (c.input(1).rank() != 1) {
    return InvalidArgument("block_shape rank should be 1 instead of ", c.input(1).rank());
  }
  if (c.input(1).num_elements() > 8) return InvalidArgument("block_shape has too many dimensions");
  Blocks blocks{.size = ReadIntegers(c.input(1))};
  RETURN_IF_ERROR(ReadMargins(c.input(2), blocks.rank(), margins, &blocks));
  return blocks;
}

absl::Status ComputeSpaceToBatchND(KernelContext& c) {
  ASSIGN_OR_RETURN(const Blocks blocks, ReadBlocks(c, "paddings"));
  return SpreadBlocks(c, blocks);
}

absl::Status ComputeBatchToSpaceND(KernelContext& c) {
  ASSIGN_OR_RETURN(const Blocks blocks, ReadBlocks(c, "crops"));
  return JoinBlocks(c, blocks);
}

class SquareBlockKernel : public Kernel {
 public:
  explicit SquareBlockKernel(bool to_batch) : to_batch_(to_batch) {}
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(block_, init.Attr<int64_t>("block_size"));
    if (block_ < 2) return InvalidArgument("Block size should be > 1: ", block_);
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    if (c.input(0).rank() != 4) return InvalidArgument("Input rank should be: 4 instead of: ", c.input(0).rank());
    Blocks blocks{.size = {block_, block_}};
    RETURN_IF_ERROR(ReadMargins(c.input(1), 2, to_batch_ ? "paddings" : "crops", &blocks));
    return to_batch_ ? SpreadBlocks(c, blocks) : JoinBlocks(c, blocks);
  }

 private:
  const bool to_batch_;
  int64_t block_ = 0;
};

// Infers the sizes if blocks and margins are constants; otherwise only the rank.
absl::Status BlockedShape(ShapeContext& c, bool to_batch, const std::optional<Dims>& block, int margins_input) {
  const PartialShape& input = c.input(0);
  const std::optional<Dims> margins = ConstantIntegers(c, margins_input);
  if (!input.has_rank()) return absl::OkStatus();
  if (!block.has_value() || !margins.has_value()) {
    c.set_output(0, PartialShape::OfRank(input.rank()));
    return absl::OkStatus();
  }
  const int m = static_cast<int>(block->size());
  if (input.rank() < 1 + m)
    return InvalidArgument("Shape must be at least rank ", 1 + m, " but is rank ", input.rank());
  if (static_cast<int>(margins->size()) != 2 * m) return InvalidArgument("paddings or crops do not match block_shape");
  Dims dims(input.dims().begin(), input.dims().end());
  int64_t product = 1;
  for (int i = 0; i < m; ++i) {
    const int64_t size = (*block)[i], before = (*margins)[2 * i], after = (*margins)[2 * i + 1];
    if (size < 1) return InvalidArgument("block_shape must be positive, got ", size);
    if (before < 0 || after < 0) return InvalidArgument("paddings and crops must be non-negative");
    product = MultiplyDims(product, size);
    int64_t& dim = dims[i + 1];
    if (dim < 0) continue;
    const int64_t margin = AddDims(before, after);
    if (to_batch) {
      dim = AddDims(dim, margin);
      if (dim % size != 0) return InvalidArgument("Dimension size must be evenly divisible by ", size, " but is ", dim);
      dim /= size;
    } else {
      dim = MultiplyDims(dim, size) - margin;
      if (dim < 0) return InvalidArgument("crops leave a negative size: ", dim);
    }
  }
  if (to_batch) {
    dims[0] = MultiplyDims(dims[0], product);
  } else if (dims[0] >= 0) {
    if (product <= 0 || dims[0] % product != 0) {
      return InvalidArgument("Dimension size must be evenly divisible by ", product, " but is ", dims[0]);
    }
    dims[0] /= product;
  }
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Dims>> SquareBlock(ShapeContext& c) {
  RETURN_IF_ERROR(c.WithRank(0, 4).status());
  ASSIGN_OR_RETURN(const int64_t block, c.Attr<int64_t>("block_size"));
  return std::optional<Dims>(Dims{block, block});
}

absl::Status SpaceToBatchNDShape(ShapeContext& c) { return BlockedShape(c, true, ConstantIntegers(c, 1), 2); }
absl::Status BatchToSpaceNDShape(ShapeContext& c) { return BlockedShape(c, false, ConstantIntegers(c, 1), 2); }
absl::Status SpaceToBatchShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const std::optional<Dims> block, SquareBlock(c));
  return BlockedShape(c, true, block, 1);
}
absl::Status BatchToSpaceShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const std::optional<Dims> block, SquareBlock(c));
  return BlockedShape(c, false, block, 1);
}

absl::Status InverseND(GradientContext& c, absl::string_view inverse) {
  c.set_dx(0, Output(c.scope().Add(inverse, {c.dy(), c.input(1), c.input(2)})));
  return absl::OkStatus();
}
absl::Status Inverse(GradientContext& c, absl::string_view inverse) {
  ASSIGN_OR_RETURN(const int64_t block, c.Attr<int64_t>("block_size"));
  c.set_dx(0, Output(c.scope().Add(inverse, {c.dy(), c.input(1)}, {{"block_size", block}})));
  return absl::OkStatus();
}
absl::Status SpaceToBatchNDGradient(GradientContext& c) { return InverseND(c, "BatchToSpaceND"); }
absl::Status BatchToSpaceNDGradient(GradientContext& c) { return InverseND(c, "SpaceToBatchND"); }
absl::Status SpaceToBatchGradient(GradientContext& c) { return Inverse(c, "BatchToSpace"); }
absl::Status BatchToSpaceGradient(GradientContext& c) { return Inverse(c, "SpaceToBatch"); }

const OpRegistration kSpaceToBatchOps[] = {
    Op("SpaceToBatchND")
        .Input("input: T")
        .Input("block_shape: Tblock_shape")
        .Input("paddings: Tpaddings")
        .Output("output: T")
        .Attr("T: type")
        .Attr("Tblock_shape: {int32, int64} = DT_INT32")
        .Attr("Tpaddings: {int32, int64} = DT_INT32")
        .Shape(SpaceToBatchNDShape)
        .Compute(ComputeSpaceToBatchND)
        .Gradient(SpaceToBatchNDGradient),
    Op("BatchToSpaceND")
        .Input("input: T")
        .Input("block_shape: Tblock_shape")
        .Input("crops: Tcrops")
        .Output("output: T")
        .Attr("T: type")
        .Attr("Tblock_shape: {int32, int64} = DT_INT32")
        .Attr("Tcrops: {int32, int64} = DT_INT32")
        .Shape(BatchToSpaceNDShape)
        .Compute(ComputeBatchToSpaceND)
        .Gradient(BatchToSpaceNDGradient),
    Op("SpaceToBatch")
        .Input("input: T")
        .Input("paddings: Tpaddings")
        .Output("output: T")
        .Attr("T: type")
        .Attr("Tpaddings: {int32, int64} = DT_INT32")
        .Attr("block_size: int >= 2")
        .Shape(SpaceToBatchShape)
        .Kernel<SquareBlockKernel>(true)
        .Gradient(SpaceToBatchGradient),
    Op("BatchToSpace")
        .Input("input: T")
        .Input("crops: Tidx")
        .Output("output: T")
        .Attr("T: type")
        .Attr("block_size: int >= 2")
        .Attr("Tidx: {int32, int64} = DT_INT32")
        .Shape(BatchToSpaceShape)
        .Kernel<SquareBlockKernel>(false)
        .Gradient(BatchToSpaceGradient),
};

}  // namespace

Output SpaceToBatchND(const Scope& s, Output input, const IntsArg& block_shape, const IntPairsArg& paddings) {
  return s.Add("SpaceToBatchND", {input, block_shape.AsTensor(s, "block_shape"), paddings.AsTensor(s, "paddings")});
}
Output BatchToSpaceND(const Scope& s, Output input, const IntsArg& block_shape, const IntPairsArg& crops) {
  return s.Add("BatchToSpaceND", {input, block_shape.AsTensor(s, "block_shape"), crops.AsTensor(s, "crops")});
}

}  // namespace thalweg
