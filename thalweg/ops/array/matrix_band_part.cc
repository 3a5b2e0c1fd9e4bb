// SPDX-License-Identifier: Apache-2.0
// MatrixBandPart keeps a band around the diagonals of matrices, num_lower below
// and num_upper above (all, if negative), and sets everything else to zero.
#include <algorithm>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

absl::Status ComputeBandPart(KernelContext& c) {
  const Tensor& input = c.input(0);
  const int rank = input.rank();
  if (rank < 2) return InvalidArgument("input must be at least 2-dim, received shape: ", input.shape());
  const int64_t rows = input.dim(rank - 2), cols = input.dim(rank - 1);
  for (int i = 1; i <= 2; ++i) {
    if (c.input(i).rank() == 0) continue;
    return InvalidArgument(i == 1 ? "num_lower" : "num_upper", " must be scalar, got shape ", c.input(i).shape());
  }
  int64_t lower = ReadInteger(c.input(1)), upper = ReadInteger(c.input(2));
  if (lower > rows) {
    return InvalidArgument("num_lower must be negative or less or equal to number of rows (", rows, ") got: ", lower);
  }
  if (upper > cols) {
    return InvalidArgument("num_upper must be negative or less or equal to number of columns (", cols,
                           ") got: ", upper);
  }
  if (lower < 0) lower = rows;
  if (upper < 0) upper = cols;
  const Shape shape = input.shape();
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();  // rows of nothing may be many
  return DispatchBySize(input.dtype(), [&]<typename T>() {
    const T* const from = ElementData<T>(input);
    T* const to = MutableElementData<T>(out);
    c.ParallelFor(shape.Product(0, rank - 1), cols * sizeof(T) * 0.2 + 2, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t i = row % rows;
        const int64_t first = std::clamp<int64_t>(i - lower, 0, cols);
        const int64_t last = std::clamp<int64_t>(i + upper + 1, first, cols);
        T* const at = to + row * cols;
        std::fill(at, at + first, T());
        CopyElements(from + row * cols + first, last - first, at + first);
        std::fill(at + last, at + cols, T());
      }
    });
    return absl::OkStatus();
  });
}

absl::Status BandPartShape(ShapeContext& c) {
  if (c.input(0).has_rank() && c.input(0).rank() < 2) {
    return InvalidArgument("Shape must be at least rank 2 but is rank ", c.input(0).rank());
  }
  return shapes::LikeInput0(c);
}

absl::Status BandPartGradient(GradientContext& c) {
  c.set_dx(0, Output(c.scope().Add(c.node()->op(), {c.dy(), c.input(1), c.input(2)})));
  return absl::OkStatus();
}

const OpRegistration kMatrixBandPartOps[] = {
    Op("MatrixBandPart")
        .Input("input: T")
        .Input("num_lower: Tindex")
        .Input("num_upper: Tindex")
        .Output("band: T")
        .Attr("T: type")
        .Attr("Tindex: {int32, int64} = DT_INT64")
        .Shape(BandPartShape)
        .Compute(ComputeBandPart)
        .Gradient(BandPartGradient),
    Op("BatchMatrixBandPart")
        .Input("input: T")
        .Input("num_lower: int64")
        .Input("num_upper: int64")
        .Output("band: T")
        .Attr("T: type")
        .Shape(BandPartShape)
        .Compute(ComputeBandPart)
        .Gradient(BandPartGradient),
};

}  // namespace

Output MatrixBandPart(const Scope& s, Output input, const IntArg& num_lower, const IntArg& num_upper) {
  const DType type = num_lower.dtype() == kInvalid ? num_upper.dtype() : num_lower.dtype();
  return s.Add("MatrixBandPart",
               {input, num_lower.AsTensor(s, "num_lower", type), num_upper.AsTensor(s, "num_upper", type)});
}

}  // namespace thalweg
