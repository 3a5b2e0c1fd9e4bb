// SPDX-License-Identifier: Apache-2.0
// Other shapes over the same elements, and the same memory.
//
//   Reshape:    any shape with as many elements; one size may be -1
//   ExpandDims: a dimension of size 1 more
//   Squeeze:    dimensions of size 1 less
#include "absl/strings/str_join.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

// Shows input 0 as output 0 under another shape.
absl::Status View(KernelContext& c, Shape shape) {
  Tensor input = c.TakeInput(0);
  c.set_output(0, input.WithShape(std::move(shape)));
  return absl::OkStatus();
}

absl::Status ReshapeToInput(GradientContext& c) {
  c.set_dx(0, Reshape(c.scope(), c.dy(), ShapeOf(c.scope(), c.input(0))));
  return absl::OkStatus();
}

// Reshape

absl::Status ComputeReshape(KernelContext& c) {
  const int64_t count = c.input(0).num_elements();
  if (c.input(1).rank() != 1) {
    return InvalidArgument("sizes input must be 1-D, not ", c.input(1).shape());
  }
  Dims sizes = ReadIntegers(c.input(1));
  int unknown = -1;
  int64_t known = 1;  // product of the sizes that are given and not zero
  bool has_zero = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1) {
      if (unknown != -1) return InvalidArgument("Only one input size may be -1, not both ", unknown, " and ", i);
      unknown = static_cast<int>(i);
    } else if (sizes[i] < 0) {
      return InvalidArgument("Size ", i, " must be non-negative, not ", sizes[i]);
    } else if (sizes[i] == 0) {
      has_zero = true;
    } else if (__builtin_mul_overflow(known, sizes[i], &known)) {
      return InvalidArgument("Shape [", absl::StrJoin(sizes, ", "), "] has too many elements");
    }
  }
  if (unknown != -1) {
    // If both shapes contain a 0, the zeros are ignored to find the size that is left open.
    int64_t left = 1;
    for (const int64_t dim : c.input(0).shape().dims()) left *= dim == 0 && has_zero ? 1 : dim;
    if (left % known != 0) {
      return InvalidArgument("Input to reshape is a tensor with ", count,
                             " values, but the requested shape requires a multiple of ", known);
    }
    sizes[unknown] = left / known;
  }
  if (sizes.size() >= Shape::kMaxRank) {
    return InvalidArgument("too many dimensions: must be < ", Shape::kMaxRank, ", but received ", sizes.size());
  }
  ASSIGN_OR_RETURN(Shape shape, Shape::Make(sizes));
  if (shape.num_elements() != count) {
    return InvalidArgument("Input to reshape is a tensor with ", count, " values, but the requested shape has ",
                           shape.num_elements());
  }
  return View(c, std::move(shape));
}

absl::Status ReshapeShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, c.ConstantAsShape(1));
  const int64_t count = c.input(0).num_elements();
  if (!shape.has_rank() || count < 0) {
    c.set_output(0, std::move(shape));
    return absl::OkStatus();
  }
  Dims dims(shape.dims().begin(), shape.dims().end());
  int64_t known = 1;
  int unknowns = 0, unknown = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0) {
      ++unknowns;
      unknown = static_cast<int>(i);
    } else {
      known = MultiplyDims(known, dims[i]);
    }
  }
  if (known < 0) return InvalidArgument("Cannot reshape a tensor with ", count, " elements to shape ", shape);
  if (unknowns == 0 && known != count) {
    return InvalidArgument("Cannot reshape a tensor with ", count, " elements to shape ", shape, " (", known,
                           " elements)");
  }
  if (unknowns == 1 && known > 0) {
    if (count % known != 0) {
      return InvalidArgument("Dimension size must be evenly divisible by ", known, " but is ", count, " for shape ",
                             shape);
    }
    dims[unknown] = count / known;
  }
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

// ExpandDims

absl::StatusOr<int> ExpandedAxis(int64_t axis, int rank) {
  if (axis < -1 - rank || axis > rank) {
    return InvalidArgument("Tried to expand dim index ", axis, " for tensor with ", rank, " dimensions.");
  }
  // -1 is a dimension after the last one.
  return static_cast<int>(axis < 0 ? axis + rank + 1 : axis);
}

absl::Status ComputeExpandDims(KernelContext& c) {
  if (c.input(1).num_elements() != 1) return InvalidArgument("'dim' must be a tensor with a single value");
  if (c.input(0).dtype() == kVariant) return InvalidArgument("ExpandDims on Variant not supported");
  Shape shape = c.input(0).shape();
  ASSIGN_OR_RETURN(const int axis, ExpandedAxis(ReadInteger(c.input(1)), shape.rank()));
  if (shape.rank() == Shape::kMaxRank) return InvalidArgument("a tensor of rank ", shape.rank(), " cannot be expanded");
  shape.InsertDim(axis, 1);
  return View(c, std::move(shape));
}

absl::Status ExpandDimsShape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  const std::optional<Dims> axis = ConstantIntegers(c, 1);
  if (!input.has_rank()) return absl::OkStatus();
  if (axis.has_value() && axis->size() != 1) return InvalidArgument("'dim' input must be a tensor with a single value");
  if (!axis.has_value()) {
    c.set_output(0, PartialShape::OfRank(input.rank() + 1));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const int at, ExpandedAxis((*axis)[0], input.rank()));
  Dims dims(input.dims().begin(), input.dims().end());
  dims.insert(dims.begin() + at, 1);
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

// Squeeze

// The dimensions that stay. `known` sizes may be -1: they must be named to go.
absl::StatusOr<Dims> Squeezed(absl::Span<const int64_t> dims, absl::Span<const int64_t> squeeze) {
  const int rank = static_cast<int>(dims.size());
  absl::InlinedVector<bool, 8> named(rank, false);
  for (const int64_t axis : squeeze) {
    if (axis < -rank || axis >= rank) {
      return InvalidArgument("Tried to squeeze dim index ", axis, " for tensor with ", rank, " dimensions.");
    }
    named[axis < 0 ? axis + rank : axis] = true;
  }
  Dims kept;
  for (int i = 0; i < rank; ++i) {
    if (squeeze.empty() ? dims[i] == 1 : named[i]) {
      if (dims[i] == 1 || dims[i] == PartialShape::kUnknown) continue;
      return InvalidArgument("Can not squeeze dim[", i, "], expected a dimension of 1, got ", dims[i]);
    }
    kept.push_back(dims[i]);
  }
  return kept;
}

class SqueezeKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(squeeze_dims_, init.Attr<std::vector<int64_t>>("squeeze_dims"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    if (c.input(0).dtype() == kVariant) return InvalidArgument("Squeeze on Variant not supported");
    ASSIGN_OR_RETURN(const Dims dims, Squeezed(c.input(0).shape().dims(), squeeze_dims_));
    return View(c, Shape(dims));
  }

 private:
  std::vector<int64_t> squeeze_dims_;
};

absl::Status SqueezeShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> squeeze, c.Attr<std::vector<int64_t>>("squeeze_dims"));
  const PartialShape& input = c.input(0);
  if (!input.has_rank()) return absl::OkStatus();
  // A dimension that is not known might be 1.
  if (squeeze.empty() && !input.fully_known()) return absl::OkStatus();
  ASSIGN_OR_RETURN(Dims dims, Squeezed(input.dims(), squeeze));
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

const OpRegistration kReshapeOps[] = {
    Op("Reshape")
        .Input("tensor: T")
        .Input("shape: Tshape")
        .Output("output: T")
        .Attr("T: type")
        .Attr("Tshape: {int32, int64} = DT_INT32")
        .Shape(ReshapeShape)
        .Compute(ComputeReshape)
        .Gradient(ReshapeToInput),
    Op("ExpandDims")
        .Input("input: T")
        .Input("dim: Tdim")
        .Output("output: T")
        .Attr("T: type")
        .Attr("Tdim: {int32, int64} = DT_INT32")
        .Shape(ExpandDimsShape)
        .Compute(ComputeExpandDims)
        .Gradient(ReshapeToInput),
    Op("Squeeze")
        .Input("input: T")
        .Output("output: T")
        .Attr("T: type")
        .Attr("squeeze_dims: list(int) >= 0 = []")
        .Shape(SqueezeShape)
        .Kernel<SqueezeKernel>()
        .Gradient(ReshapeToInput),
};

}  // namespace

Output Reshape(const Scope& s, Output tensor, const IntsArg& shape) {
  return s.Add("Reshape", {tensor, shape.AsTensor(s, "shape")});
}
Output ExpandDims(const Scope& s, Output input, const IntArg& dim) {
  return s.Add("ExpandDims", {input, dim.AsTensor(s, "dim")});
}
Output Squeeze(const Scope& s, Output input, const std::vector<int64_t>& squeeze_dims) {
  return s.Add("Squeeze", {input}, {{"squeeze_dims", squeeze_dims}});
}

}  // namespace thalweg
