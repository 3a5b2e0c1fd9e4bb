// SPDX-License-Identifier: Apache-2.0
// StridedSlice: NumPy's slicing. StridedSliceGrad is its transpose: a tensor of
// the input's shape with dy in the places of the slice and zeros elsewhere.
// TensorStridedSliceUpdate is the input with other values in those places.
#include "thalweg/ops/array/strided_slice.h"

#include <algorithm>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

bool Bit(int64_t mask, int i) { return i < 64 && (mask >> i & 1) != 0; }

// Elements of [begin, end) at a stride; all canonical.
int64_t CountOf(int64_t begin, int64_t end, int64_t stride) {
  const int64_t interval = end - begin;
  if (interval == 0 || (interval < 0) != (stride < 0)) return 0;
  return interval / stride + (interval % stride != 0 ? 1 : 0);
}

// Resolves one entry for dimension d and appends it to the block. `size` may be
// unknown.
class Resolver {
 public:
  Resolver(const SliceVectors& vectors, const StridedSliceOptions& masks) : vectors_(vectors), masks_(masks) {}

  // Dimension of `size` that no entry names.
  void Whole(int64_t size, SliceBlock* block) const { Append(0, 1, size, block); }

  absl::Status Entry(int i, int d, int64_t size, SliceBlock* block) const {
    const bool shrink = Bit(masks_.shrink_axis_mask, i);
    const bool begin_masked = Bit(masks_.begin_mask, i), end_masked = Bit(masks_.end_mask, i);
    const int64_t stride = vectors_.strides == nullptr ? 1 : (*vectors_.strides)[i];
    if (stride == 0) return InvalidArgument("strides[", i, "] must be non-zero");
    if (shrink && stride < 0) return InvalidArgument("only stride 1 allowed on non-range indexing.");
    if (shrink) return Index(i, d, size, block);
    const bool all = begin_masked && end_masked;
    const bool known = size >= 0 && vectors_.strides != nullptr && (begin_masked || vectors_.begin != nullptr) &&
                       (end_masked || vectors_.end != nullptr);
    if (!known) {
      Append(0, stride, all && stride == 1 && vectors_.strides != nullptr ? size : UnknownButConstant(i, stride),
             block);
      return absl::OkStatus();
    }
    // The valid range of begins and ends. With a negative stride, one before the first element is
    // valid.
    const int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? size : size - 1;
    const auto canonical = [&](int64_t x) { return std::clamp(x < 0 ? x + size : x, low, high); };
    const int64_t begin = begin_masked ? (stride > 0 ? low : high) : canonical((*vectors_.begin)[i]);
    const int64_t end = end_masked ? (stride > 0 ? high : low) : canonical((*vectors_.end)[i]);
    Append(begin, stride, CountOf(begin, end, stride), block);
    return absl::OkStatus();
  }

 private:
  absl::Status Index(int i, int d, int64_t size, SliceBlock* block) const {
    if (vectors_.begin != nullptr && size >= 0) {
      const int64_t given = (*vectors_.begin)[i];
      const int64_t index = given < 0 ? given + size : given;
      if (index < 0 || index >= size) {
        return InvalidArgument("slice index ", given, " of dimension ", d, " out of bounds.");
      }
      block->begin.push_back(index);
    } else {
      block->begin.push_back(0);
    }
    block->stride.push_back(1);
    block->size.push_back(1);
    return absl::OkStatus();
  }

  // Without the size of the input, [a:b] still has a known length where both
  // count from the same side.
  int64_t UnknownButConstant(int i, int64_t stride) const {
    if (vectors_.begin == nullptr || vectors_.end == nullptr || vectors_.strides == nullptr)
      return PartialShape::kUnknown;
    if (Bit(masks_.begin_mask, i) || Bit(masks_.end_mask, i)) return PartialShape::kUnknown;
    // Even then the input may be shorter, so nothing is certain but emptiness.
    const int64_t begin = (*vectors_.begin)[i], end = (*vectors_.end)[i];
    const bool same_side = (begin < 0) == (end < 0);
    return same_side && CountOf(begin, end, stride) == 0 ? 0 : PartialShape::kUnknown;
  }

  void Append(int64_t begin, int64_t stride, int64_t size, SliceBlock* block) const {
    block->begin.push_back(begin);
    block->stride.push_back(stride);
    block->size.push_back(size);
    block->output.push_back(size);
  }

  const SliceVectors& vectors_;
  const StridedSliceOptions& masks_;
};

}  // namespace

StridedPlace SliceBlock::Place(absl::Span<const int64_t> dims) const {
  StridedPlace place{.strides = RowMajorStrides(dims)};
  for (size_t d = 0; d < dims.size(); ++d) {
    place.offset += begin[d] * place.strides[d];
    place.strides[d] *= stride[d];
  }
  return place;
}

std::vector<AttrArg> MaskAttrs(const StridedSliceOptions& masks) {
  return {{"begin_mask", masks.begin_mask},
          {"end_mask", masks.end_mask},
          {"ellipsis_mask", masks.ellipsis_mask},
          {"new_axis_mask", masks.new_axis_mask},
          {"shrink_axis_mask", masks.shrink_axis_mask}};
}

absl::StatusOr<SliceBlock> ResolveSlice(absl::Span<const int64_t> dims, const SliceVectors& vectors,
                                        const StridedSliceOptions& masks) {
  const int rank = static_cast<int>(dims.size());
  // Entries that name a dimension; the ellipsis stands for the others. Without
  // one, it is as if it stood at the end.
  int ellipsis = vectors.count, named = 0;
  for (int i = 0; i < vectors.count; ++i) {
    if (Bit(masks.ellipsis_mask, i)) {
      if (ellipsis != vectors.count) return InvalidArgument("Multiple ellipses in slice spec not allowed");
      ellipsis = i;
    } else if (!Bit(masks.new_axis_mask, i)) {
      ++named;
    }
  }
  SliceBlock block;
  const Resolver resolver(vectors, masks);
  int d = 0;
  for (int i = 0; i <= vectors.count; ++i) {
    if (i == ellipsis) {
      for (int k = named; k < rank; ++k) resolver.Whole(dims[d++], &block);
    } else if (i == vectors.count) {
      break;
    } else if (Bit(masks.new_axis_mask, i)) {
      block.output.push_back(1);
    } else if (d == rank) {
      return InvalidArgument("Index out of range using input dim ", d, "; input has only ", rank, " dims");
    } else {
      RETURN_IF_ERROR(resolver.Entry(i, d, dims[d], &block));
      ++d;
    }
  }
  return block;
}

absl::StatusOr<SliceBlock> ResolveSlice(absl::Span<const int64_t> dims, const Tensor& begin, const Tensor& end,
                                        const Tensor& strides, const StridedSliceOptions& masks) {
  if (begin.rank() != 1 || end.rank() != 1 || strides.rank() != 1 || begin.dim(0) != end.dim(0) ||
      begin.dim(0) != strides.dim(0) || begin.dim(0) >= 32) {
    return InvalidArgument("Expected begin, end, and strides to be 1D equal size tensors, but got shapes ",
                           begin.shape(), ", ", end.shape(), ", and ", strides.shape(), " instead.");
  }
  const Dims b = ReadIntegers(begin), e = ReadIntegers(end), s = ReadIntegers(strides);
  ASSIGN_OR_RETURN(SliceBlock block, ResolveSlice(dims, {static_cast<int>(begin.dim(0)), &b, &e, &s}, masks));
  RETURN_IF_ERROR(Shape::Make(block.output).status());
  return block;
}

namespace {

class StridedSliceKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(masks_, SliceMasks(init));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    ASSIGN_OR_RETURN(const SliceBlock block,
                     ResolveSlice(input.shape().dims(), c.input(1), c.input(2), c.input(3), masks_));
    const Shape shape(block.output);
    bool rows = input.rank() > 0 && block.stride[0] == 1;
    for (int d = 1; d < input.rank(); ++d) rows = rows && block.size[d] == input.dim(d) && block.stride[d] == 1;
    if (rows && WorthSharing(input.dtype(), shape.num_elements())) {
      c.set_output(0, input.Rows(block.begin[0], block.begin[0] + block.size[0]).WithShape(shape));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    return CopyStrided(c, block.size, input, block.Place(input.shape().dims()), out,
                       {.strides = RowMajorStrides(block.size)});
  }

 private:
  StridedSliceOptions masks_;
};

absl::Status StridedSliceShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const StridedSliceOptions masks, SliceMasks(c));
  ASSIGN_OR_RETURN(PartialShape entries, c.WithRank(1, 1));
  for (int i = 2; i <= 3; ++i) {
    ASSIGN_OR_RETURN(const PartialShape other, c.WithRank(i, 1));
    ASSIGN_OR_RETURN(entries, PartialShape::Merge(entries, other));
  }
  if (!c.input(0).has_rank() || entries.dim(0) < 0) return absl::OkStatus();
  const std::optional<Dims> begin = ConstantIntegers(c, 1), end = ConstantIntegers(c, 2),
                            strides = ConstantIntegers(c, 3);
  SliceVectors vectors{.count = static_cast<int>(entries.dim(0))};
  if (begin.has_value()) vectors.begin = &*begin;
  if (end.has_value()) vectors.end = &*end;
  if (strides.has_value()) vectors.strides = &*strides;
  ASSIGN_OR_RETURN(SliceBlock block, ResolveSlice(c.input(0).dims(), vectors, masks));
  c.set_output(0, PartialShape(std::move(block.output)));
  return absl::OkStatus();
}

absl::Status StridedSliceGradient(GradientContext& c) {
  const Scope& s = c.scope();
  ASSIGN_OR_RETURN(const StridedSliceOptions masks, SliceMasks(c));
  const Output shape = ShapeOf(s, c.input(0), c.input(1).dtype());
  c.set_dx(0, Output(s.Add("StridedSliceGrad", {shape, c.input(1), c.input(2), c.input(3), c.dy()}, MaskAttrs(masks))));
  return absl::OkStatus();
}

class StridedSliceGradKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(masks_, SliceMasks(init));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    if (c.input(0).rank() != 1) return InvalidArgument("shape must be 1-D, got shape.shape = ", c.input(0).shape());
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(ReadIntegers(c.input(0))));
    ASSIGN_OR_RETURN(const SliceBlock block, ResolveSlice(shape.dims(), c.input(1), c.input(2), c.input(3), masks_));
    const Tensor& dy = c.input(4);
    if (dy.shape().dims() != absl::MakeConstSpan(block.output)) {
      return InvalidArgument("shape of dy was ", dy.shape(), " instead of ", Shape(block.output));
    }
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    ClearElements(out);
    return CopyStrided(c, block.size, dy, {.strides = RowMajorStrides(block.size)}, out, block.Place(shape.dims()));
  }

 private:
  StridedSliceOptions masks_;
};

absl::Status ShapeFromInput0(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, c.ConstantAsShape(0));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status StridedSliceGradGradient(GradientContext& c) {
  ASSIGN_OR_RETURN(const StridedSliceOptions masks, SliceMasks(c));
  c.set_dx(4, StridedSlice(c.scope(), c.dy(), c.input(1), c.input(2), c.input(3), masks));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Tensor> ExpandSliceValue(KernelContext& c, const SliceBlock& block, const Tensor& value) {
  const int rank = static_cast<int>(block.output.size());
  Dims strides(rank, 0);
  const Dims value_strides = RowMajorStrides(value.shape().dims());
  bool fits = value.rank() <= rank;
  for (int i = 0; fits && i < value.rank(); ++i) {
    const int d = rank - value.rank() + i;
    fits = value.dim(i) == block.output[d] || value.dim(i) == 1;
    if (value.dim(i) != 1) strides[d] = value_strides[i];
  }
  if (!fits) {
    return InvalidArgument("value of shape ", value.shape(), " does not fit a slice of shape ", Shape(block.output));
  }
  ASSIGN_OR_RETURN(Tensor expanded, c.AllocateTemporary(value.dtype(), Shape(block.output)));
  RETURN_IF_ERROR(
      CopyStrided(c, block.output, value, {.strides = strides}, &expanded, {.strides = RowMajorStrides(block.output)}));
  return expanded;
}

namespace {

class TensorStridedSliceUpdateKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(masks_, SliceMasks(init));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    const Shape shape = input.shape();
    ASSIGN_OR_RETURN(const SliceBlock block, ResolveSlice(shape.dims(), c.input(1), c.input(2), c.input(3), masks_));
    const Tensor& value = c.input(4);
    ASSIGN_OR_RETURN(const Tensor expanded, ExpandSliceValue(c, block, value));
    ASSIGN_OR_RETURN(Tensor* const out, c.ForwardOrAllocate({0}, 0, shape));
    if (out->raw() != input.raw()) {
      const Dims all = RowMajorStrides(shape.dims());
      RETURN_IF_ERROR(CopyStrided(c, shape.dims(), input, {.strides = all}, out, {.strides = all}));
    }
    return CopyStrided(c, block.size, expanded, {.strides = RowMajorStrides(block.size)}, out,
                       block.Place(shape.dims()));
  }

 private:
  StridedSliceOptions masks_;
};

absl::Status TensorStridedSliceUpdateGradient(GradientContext& c) {
  const Scope& s = c.scope();
  ASSIGN_OR_RETURN(const StridedSliceOptions masks, SliceMasks(c));
  const Output slice = StridedSlice(s, c.dy(), c.input(1), c.input(2), c.input(3), masks);
  c.set_dx(4, slice);
  c.set_dx(0, Output(s.Add("TensorStridedSliceUpdate",
                           {c.dy(), c.input(1), c.input(2), c.input(3), ZerosLike(s, slice)}, MaskAttrs(masks))));
  return absl::OkStatus();
}

const OpRegistration kStridedSliceOps[] = {
    Op("StridedSlice")
        .Input("input: T")
        .Input("begin: Index")
        .Input("end: Index")
        .Input("strides: Index")
        .Output("output: T")
        .Attr("T: type")
        .Attr("Index: {int16, int32, int64}")
        .Attr("begin_mask: int = 0")
        .Attr("end_mask: int = 0")
        .Attr("ellipsis_mask: int = 0")
        .Attr("new_axis_mask: int = 0")
        .Attr("shrink_axis_mask: int = 0")
        .Shape(StridedSliceShape)
        .Kernel<StridedSliceKernel>()
        .Gradient(StridedSliceGradient),
    Op("StridedSliceGrad")
        .Input("shape: Index")
        .Input("begin: Index")
        .Input("end: Index")
        .Input("strides: Index")
        .Input("dy: T")
        .Output("output: T")
        .Attr("T: type")
        .Attr("Index: {int32, int64}")
        .Attr("begin_mask: int = 0")
        .Attr("end_mask: int = 0")
        .Attr("ellipsis_mask: int = 0")
        .Attr("new_axis_mask: int = 0")
        .Attr("shrink_axis_mask: int = 0")
        .Shape(ShapeFromInput0)
        .Kernel<StridedSliceGradKernel>()
        .Gradient(StridedSliceGradGradient),
    Op("TensorStridedSliceUpdate")
        .Input("input: T")
        .Input("begin: Index")
        .Input("end: Index")
        .Input("strides: Index")
        .Input("value: T")
        .Output("output: T")
        .Attr("T: type")
        .Attr("Index: {int32, int64}")
        .Attr("begin_mask: int = 0")
        .Attr("end_mask: int = 0")
        .Attr("ellipsis_mask: int = 0")
        .Attr("new_axis_mask: int = 0")
        .Attr("shrink_axis_mask: int = 0")
        .Shape(shapes::LikeInput0)
        .Kernel<TensorStridedSliceUpdateKernel>()
        .Gradient(TensorStridedSliceUpdateGradient),
};

}  // namespace

Output StridedSlice(const Scope& s, Output input, const IntsArg& begin, const IntsArg& end, const IntsArg& strides,
                    const StridedSliceOptions& options) {
  DType type = kInvalid;
  for (const IntsArg* ints : {&begin, &end, &strides}) type = type == kInvalid ? ints->dtype() : type;
  const std::vector<OpInput> inputs{input, begin.AsTensor(s, "begin", type), end.AsTensor(s, "end", type),
                                    strides.AsTensor(s, "strides", type)};
  return s.Add("StridedSlice", inputs, MaskAttrs(options));
}

}  // namespace thalweg
