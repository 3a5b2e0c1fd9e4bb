// SPDX-License-Identifier: Apache-2.0
// Roll: element i of an axis goes to (i + shift) modulo the axis' size. An axis
// may be named several times; its shifts add up.
#include <algorithm>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

// The shift of each axis, in [0, size).
absl::StatusOr<Dims> ReadShifts(const Tensor& input, const Tensor& shift, const Tensor& axis) {
  if (input.rank() < 1) return InvalidArgument("input must be 1-D or higher");
  if (shift.rank() > 1) {
    return InvalidArgument("shift must be a scalar or a 1-D vector. Found: ", shift.shape());
  }
  if (axis.rank() > 1) return InvalidArgument("axis must be a scalar or a 1-D vector. Found: ", axis.shape());
  if (!(shift.shape() == axis.shape())) return InvalidArgument("shift and axis must have the same size");
  Dims shifts(input.rank(), 0);
  for (int64_t i = 0; i < axis.num_elements(); ++i) {
    const int64_t named = ReadInteger(axis, i), at = named < 0 ? named + input.rank() : named;
    if (at < 0 || at >= input.rank()) return InvalidArgument("axis ", named, " is out of range");
    const int64_t size = std::max<int64_t>(input.dim(static_cast<int>(at)), 1);
    shifts[at] = (shifts[at] + (ReadInteger(shift, i) % size + size) % size) % size;
  }
  return shifts;
}

// Each shifted axis consists of two pieces that move separately. Copies the pieces of axis `d`
// and, recursively, of the axes after it.
absl::Status CopyPieces(KernelContext& c, const Dims& shifts, int d, Dims& dims, StridedPlace& from, StridedPlace& to,
                        Tensor* out) {
  const Tensor& input = c.input(0);
  while (d < input.rank() && shifts[d] == 0) ++d;
  if (d == input.rank()) return CopyStrided(c, dims, input, from, out, to);
  const int64_t size = input.dim(d), shift = shifts[d], stride = from.strides[d];
  for (const bool wraps : {false, true}) {
    dims[d] = wraps ? shift : size - shift;
    const int64_t before = wraps ? (size - shift) * stride : 0, behind = wraps ? 0 : shift * stride;
    from.offset += before;
    to.offset += behind;
    RETURN_IF_ERROR(CopyPieces(c, shifts, d + 1, dims, from, to, out));
    from.offset -= before;
    to.offset -= behind;
  }
  return absl::OkStatus();
}

absl::Status ComputeRoll(KernelContext& c) {
  const Tensor& input = c.input(0);
  ASSIGN_OR_RETURN(const Dims shifts, ReadShifts(input, c.input(1), c.input(2)));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, input.shape()));
  if (out->num_elements() == 0) return absl::OkStatus();
  Dims dims(input.shape().dims().begin(), input.shape().dims().end());
  StridedPlace from{.strides = RowMajorStrides(dims)}, to = from;
  return CopyPieces(c, shifts, 0, dims, from, to, out);
}

absl::Status RollShape(ShapeContext& c) {
  if (c.input(0).has_rank() && c.input(0).rank() < 1) {
    return InvalidArgument("Shape must be at least rank 1 but is rank 0");
  }
  for (const int i : {1, 2}) {
    if (c.input(i).has_rank() && c.input(i).rank() > 1) {
      return InvalidArgument("Shape must be at most rank 1 but is rank ", c.input(i).rank());
    }
  }
  return shapes::LikeInput0(c);
}

absl::Status RollGradient(GradientContext& g) {
  const Scope& s = g.scope();
  g.set_dx(0, Output(s.Add("Roll", {g.dy(), Neg(s, g.input(1)), g.input(2)})));
  return absl::OkStatus();
}

const OpRegistration kRoll = Op("Roll")
                                 .Input("input: T")
                                 .Input("shift: Tshift")
                                 .Input("axis: Taxis")
                                 .Output("output: T")
                                 .Attr("T: type")
                                 .Attr("Tshift: {int32, int64}")
                                 .Attr("Taxis: {int32, int64}")
                                 .Shape(RollShape)
                                 .Compute(ComputeRoll)
                                 .Gradient(RollGradient);

}  // namespace

Output Roll(const Scope& s, Output input, const IntsArg& shift, const IntsArg& axis) {
  return s.Add("Roll", {input, shift.AsTensor(s, "shift"), axis.AsTensor(s, "axis")});
}

}  // namespace thalweg
