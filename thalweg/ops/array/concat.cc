// SPDX-License-Identifier: Apache-2.0
// Concat and ConcatV2 (which differ in the order of their inputs) join tensors
// along a dimension that they have. ConcatOffset says where each begins in the
// result.
#include "absl/strings/str_join.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

// Concat has the axis first, ConcatV2 last.
struct Layout {
  int axis;
  int first;
  int count;
};
Layout LayoutOf(bool axis_first, int num_inputs) {
  return axis_first ? Layout{0, 1, num_inputs - 1} : Layout{num_inputs - 1, 0, num_inputs - 1};
}

absl::Status CheckShapes(const Shape& first, const Shape& other, int i, int axis) {
  if (other.rank() != first.rank()) {
    return InvalidArgument("ConcatOp : Ranks of all input tensors should match: shape[0] = ", first, " vs. shape[", i,
                           "] = ", other);
  }
  for (int d = 0; d < first.rank(); ++d) {
    if (d == axis || first.dim(d) == other.dim(d)) continue;
    return InvalidArgument("ConcatOp : Dimension ", d, " in both shapes must be equal: shape[0] = ", first,
                           " vs. shape[", i, "] = ", other);
  }
  return absl::OkStatus();
}

class ConcatKernel : public Kernel {
 public:
  explicit ConcatKernel(bool axis_first) : axis_first_(axis_first) {}

  absl::Status Compute(KernelContext& c) override {
    const Layout layout = LayoutOf(axis_first_, c.num_inputs());
    const Tensor& axis_input = c.input(layout.axis);
    if (axis_input.rank() > 1 || axis_input.num_elements() != 1) {
      return InvalidArgument(axis_first_ ? "concat_dim" : "axis", " tensor should be a scalar integer, but got shape ",
                             axis_input.shape());
    }
    const Shape& first = c.input(layout.first).shape();
    if (first.rank() == 0) return InvalidArgument("ConcatOp : Can't concatenate scalars (use tf.stack instead)");
    const int64_t given = ReadInteger(axis_input);
    if (given < -first.rank() || given >= first.rank()) {
      return InvalidArgument("ConcatOp : Expected concatenating dimensions in the range [", -first.rank(), ", ",
                             first.rank(), "), but got ", given);
    }
    const int axis = static_cast<int>(given < 0 ? given + first.rank() : given);
    const int64_t inner = first.Product(axis + 1, first.rank());
    absl::InlinedVector<int64_t, 8> widths(layout.count);
    int64_t size = 0;
    for (int i = 0; i < layout.count; ++i) {
      const Shape& shape = c.input(layout.first + i).shape();
      RETURN_IF_ERROR(CheckShapes(first, shape, i, axis));
      widths[i] = shape.dim(axis) * inner;
      if (__builtin_add_overflow(size, shape.dim(axis), &size)) return InvalidArgument("ConcatOp : too many elements");
    }
    Dims dims(first.dims().begin(), first.dims().end());
    dims[axis] = size;
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    return ConcatRows(c, layout.first, widths, first.Product(0, axis), out);
  }

 private:
  const bool axis_first_;
};

absl::Status ShapeOfConcat(ShapeContext& c, const Layout& layout) {
  const PartialShape& axis_shape = c.input(layout.axis);
  if (axis_shape.has_rank() && axis_shape.rank() > 1) RETURN_IF_ERROR(c.RequireScalar(layout.axis));
  const std::optional<Dims> axis_value = ConstantIntegers(c, layout.axis);
  PartialShape any;  // shape of the first input whose rank is known
  for (int i = 0; i < layout.count; ++i) {
    const PartialShape& shape = c.input(layout.first + i);
    if (!shape.has_rank()) continue;
    if (any.has_rank() && any.rank() != shape.rank()) {
      return InvalidArgument("Ranks of all input tensors should match: ", any, " vs. ", shape);
    }
    any = shape;
  }
  if (!any.has_rank()) return absl::OkStatus();
  if (!axis_value.has_value() || axis_value->size() != 1) {
    c.set_output(0, PartialShape::OfRank(any.rank()));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis((*axis_value)[0], any.rank()));
  Dims dims(any.rank(), PartialShape::kUnknown);
  dims[axis] = 0;
  for (int i = 0; i < layout.count; ++i) {
    const PartialShape& shape = c.input(layout.first + i);
    for (int d = 0; d < any.rank(); ++d) {
      if (d == axis) {
        dims[d] = AddDims(dims[d], DimOf(shape, d));
      } else {
        ASSIGN_OR_RETURN(dims[d], MergeDims(dims[d], DimOf(shape, d)));
      }
    }
  }
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

absl::Status ConcatShape(ShapeContext& c) { return ShapeOfConcat(c, LayoutOf(true, c.num_inputs())); }
absl::Status ConcatV2Shape(ShapeContext& c) { return ShapeOfConcat(c, LayoutOf(false, c.num_inputs())); }

// Every input gets its slice of dy back.
absl::Status GradientOfConcat(GradientContext& c, const Layout& layout) {
  const Scope& s = c.scope();
  std::vector<Output> inputs;
  for (int i = 0; i < layout.count; ++i) inputs.push_back(c.input(layout.first + i));
  const std::vector<Output> sizes = ShapeN(s, inputs);
  Output axis = c.input(layout.axis);
  if (axis.dtype() != kInt32) axis = s.Add("Cast", {axis}, {{"DstT", kInt32}});
  axis = s.Add("FloorMod", {axis, Rank(s, inputs[0])});
  Node* const offsets = s.Add("ConcatOffset", {axis, sizes});
  const Output dy = c.dy();
  for (int i = 0; i < layout.count; ++i) c.set_dx(layout.first + i, Slice(s, dy, Output(offsets, i), sizes[i]));
  return absl::OkStatus();
}

absl::Status ConcatGradient(GradientContext& c) { return GradientOfConcat(c, LayoutOf(true, c.node()->num_inputs())); }
absl::Status ConcatV2Gradient(GradientContext& c) {
  return GradientOfConcat(c, LayoutOf(false, c.node()->num_inputs()));
}

// ConcatOffset

absl::Status ComputeConcatOffset(KernelContext& c) {
  if (c.input(0).rank() != 0) {
    return InvalidArgument("Concat dim tensor should be a scalar integer, but got shape ", c.input(0).shape());
  }
  const Tensor& first = c.input(1);
  if (first.rank() != 1) return InvalidArgument("input 0 should be a vector, but got shape ", first.shape());
  const int64_t rank = first.num_elements();
  const int64_t given = ReadInteger(c.input(0));
  if (given < -rank || given >= rank) {
    return InvalidArgument("Concat dim is out of range: ", given, " vs. ", rank);
  }
  const int64_t axis = given < 0 ? given + rank : given;
  int64_t offset = 0;
  for (int i = 0; i < c.num_outputs(); ++i) {
    const Tensor& sizes = c.input(1 + i);
    if (sizes.rank() != 1) return InvalidArgument("input ", i, " should be a vector, but got shape ", sizes.shape());
    if (sizes.num_elements() != rank) {
      return InvalidArgument("input ", i, " should contain ", rank, " elements, but got ", sizes.num_elements());
    }
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(i, Shape({rank})));
    for (int64_t d = 0; d < rank; ++d) {
      if (d != axis && ReadInteger(sizes, d) != ReadInteger(first, d)) {
        return InvalidArgument("All dimensions except ", axis, " must match. Input ", i, " has shape [",
                               absl::StrJoin(ReadIntegers(sizes), " "), "] and doesn't match input 0 with shape [",
                               absl::StrJoin(ReadIntegers(first), " "), "].");
      }
      const int64_t value = d == axis ? offset : 0;
      if (out->dtype() == kInt32) {
        out->mutable_data<int32_t>()[d] = static_cast<int32_t>(value);
      } else {
        out->mutable_data<int64_t>()[d] = value;
      }
    }
    if (__builtin_add_overflow(offset, ReadInteger(sizes, axis), &offset)) return InvalidArgument("offsets overflow");
  }
  return absl::OkStatus();
}

absl::Status ConcatOffsetShape(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) {
    ASSIGN_OR_RETURN(PartialShape shape, c.WithRank(i + 1, 1));
    c.set_output(i, std::move(shape));
  }
  return absl::OkStatus();
}

const OpRegistration kConcatOps[] = {
    Op("Concat")
        .Input("concat_dim: int32")
        .Input("values: N * T")
        .Output("output: T")
        .Attr("N: int >= 2")
        .Attr("T: type")
        .Shape(ConcatShape)
        .Kernel<ConcatKernel>(true)
        .Gradient(ConcatGradient),
    Op("ConcatV2")
        .Input("values: N * T")
        .Input("axis: Tidx")
        .Output("output: T")
        .Attr("N: int >= 2")
        .Attr("T: type")
        .Attr("Tidx: {int32, int64} = DT_INT32")
        .Shape(ConcatV2Shape)
        .Kernel<ConcatKernel>(false)
        .Gradient(ConcatV2Gradient),
    Op("ConcatOffset")
        .Input("concat_dim: int32")
        .Input("shape: N * shape_type")
        .Output("offset: N * shape_type")
        .Attr("N: int >= 2")
        .Attr("shape_type: {int32, int64} = DT_INT32")
        .Shape(ConcatOffsetShape)
        .Compute(ComputeConcatOffset)
        .NotDifferentiable(),
};

}  // namespace

Output Concat(const Scope& s, const std::vector<Output>& values, const IntArg& axis) {
  if (values.size() == 1) return Identity(s, values[0]);
  return s.Add("ConcatV2", {values, axis.AsTensor(s, "axis")});
}

}  // namespace thalweg
