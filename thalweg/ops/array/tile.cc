// SPDX-License-Identifier: Apache-2.0
// Tile repeats a tensor: multiples[d] times along dimension d. TileGrad, of
// TensorFlow's first graphs, sums the copies.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

absl::StatusOr<Dims> ReadMultiples(KernelContext& c) {
  const int rank = c.input(0).rank();
  if (c.input(1).rank() != 1 || c.input(1).num_elements() != rank) {
    return InvalidArgument("Expected multiples argument to be a vector of length ", rank, " but got length ",
                           c.input(1).num_elements());
  }
  return ReadIntegers(c.input(1));
}

absl::Status ComputeTile(KernelContext& c) {
  const Tensor& input = c.input(0);
  const int rank = input.rank();
  ASSIGN_OR_RETURN(const Dims multiples, ReadMultiples(c));
  Dims dims(rank);
  bool once = true;
  for (int d = 0; d < rank; ++d) {
    if (multiples[d] < 0) return InvalidArgument("Expected multiples[", d, "] >= 0, but got ", multiples[d]);
    if (__builtin_mul_overflow(input.dim(d), multiples[d], &dims[d])) {
      return InvalidArgument("Tile: ", input.dim(d), " times ", multiples[d], " overflows");
    }
    once = once && multiples[d] == 1;
  }
  if (once) {
    c.set_output(0, c.TakeInput(0));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  // Every dimension is two: which copy, and where in it.
  const Dims from_strides = RowMajorStrides(input.shape().dims()), to_strides = RowMajorStrides(dims);
  absl::InlinedVector<int64_t, 8> loops;
  StridedPlace from, to;
  for (int d = 0; d < rank; ++d) {
    loops.insert(loops.end(), {multiples[d], input.dim(d)});
    from.strides.insert(from.strides.end(), {0, from_strides[d]});
    to.strides.insert(to.strides.end(), {input.dim(d) * to_strides[d], to_strides[d]});
  }
  return CopyStrided(c, loops, input, from, out, to);
}

absl::Status TileShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape multiples_shape, c.WithRank(1, 1));
  ASSIGN_OR_RETURN(const int64_t rank, MergeDims(multiples_shape.dim(0), c.input(0).rank()));
  if (rank < 0 || rank > Shape::kMaxRank) return absl::OkStatus();
  ASSIGN_OR_RETURN(const PartialShape multiples, c.ConstantAsShape(1));
  Dims dims(rank, PartialShape::kUnknown);
  for (int d = 0; d < rank && multiples.has_rank() && multiples.rank() == rank; ++d) {
    dims[d] = MultiplyDims(DimOf(c.input(0), d), multiples.dim(d));
  }
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

// Every element was used in as many places as it was repeated: dy is seen with
// two dimensions for each, and summed over the copies.
absl::Status TileGradient(GradientContext& c) {
  const Scope& s = c.scope();
  const Output multiples = c.input(1);
  const Output input_shape = ShapeOf(s, c.input(0), multiples.dtype());
  const Output split_shape = Reshape(s, Pack(s, {multiples, input_shape}, 1), {-1});
  const Output axes = Range(s, Const(s, 0), Size(s, split_shape), Const(s, 2));
  const Output sum = s.Add("Sum", {Reshape(s, c.dy(), split_shape), axes});
  c.set_dx(0, Reshape(s, sum, input_shape));
  return absl::OkStatus();
}

absl::Status ComputeTileGrad(KernelContext& c) {
  const Tensor& input = c.input(0);
  const int rank = input.rank();
  ASSIGN_OR_RETURN(const Dims multiples, ReadMultiples(c));
  Dims dims(rank);
  for (int d = 0; d < rank; ++d) {
    if (multiples[d] <= 0 || input.dim(d) % multiples[d] != 0) {
      return InvalidArgument("Expected input_dim to be divisible by multiples, but ", input.dim(d), " % ", multiples[d],
                             " != 0");
    }
    dims[d] = input.dim(d) / multiples[d];
  }
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  ClearElements(out);
  const Dims strides = RowMajorStrides(dims);
  return Dispatch(NumberTypes(), input.dtype(), [&]<typename T>() {
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      int64_t rest = i, to = 0;
      for (int d = rank - 1; d >= 0; rest /= input.dim(d--)) to += rest % input.dim(d) % dims[d] * strides[d];
      out->mutable_data<T>()[to] += input.data<T>()[i];
    }
    return absl::OkStatus();
  });
}

const OpRegistration kTileOps[] = {
    Op("Tile")
        .Input("input: T")
        .Input("multiples: Tmultiples")
        .Output("output: T")
        .Attr("T: type")
        .Attr("Tmultiples: {int32, int64} = DT_INT32")
        .Shape(TileShape)
        .Compute(ComputeTile)
        .Gradient(TileGradient),
    Op("TileGrad")
        .Input("input: T")
        .Input("multiples: int32")
        .Output("output: T")
        .Attr("T: type")
        .Shape(shapes::Unknown)
        .Compute(ComputeTileGrad)
        .NotDifferentiable(),
};

}  // namespace

Output Tile(const Scope& s, Output input, const IntsArg& multiples) {
  return s.Add("Tile", {input, multiples.AsTensor(s, "multiples")});
}

}  // namespace thalweg
