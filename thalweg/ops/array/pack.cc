// SPDX-License-Identifier: Apache-2.0
// Pack puts N tensors of one shape side by side along a new dimension, `axis`;
// Unpack takes them apart again.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

absl::StatusOr<int> AxisIn(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) return InvalidArgument("axis = ", axis, " not in [", -rank, ", ", rank, ")");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

class PackKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(axis_, init.Attr<int64_t>("axis"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Shape& first = c.input(0).shape();
    const int n = c.num_inputs();
    for (int i = 1; i < n; ++i) {
      if (c.input(i).shape() == first) continue;
      return InvalidArgument("Shapes of all inputs must match: values[0].shape = ", first, " != values[", i,
                             "].shape = ", c.input(i).shape());
    }
    if (first.rank() == Shape::kMaxRank) return InvalidArgument("tensors of rank ", first.rank(), " cannot be packed");
    ASSIGN_OR_RETURN(const int axis, AxisIn(axis_, first.rank() + 1));
    Dims dims(first.dims().begin(), first.dims().end());
    dims.insert(dims.begin() + axis, n);
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    if (n == 1) {
      Tensor input = c.TakeInput(0);
      c.set_output(0, input.WithShape(shape));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    if (out->num_elements() == 0) return absl::OkStatus();
    const Dims widths(n, first.Product(axis, first.rank()));
    return ConcatRows(c, 0, widths, first.Product(0, axis), out);
  }

 private:
  int64_t axis_ = 0;
};

absl::Status PackShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const int64_t axis_attr, c.Attr<int64_t>("axis"));
  PartialShape merged;
  for (int i = 0; i < c.num_inputs(); ++i) {
    ASSIGN_OR_RETURN(merged, PartialShape::Merge(merged, c.input(i)));
  }
  if (!merged.has_rank()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int axis, AxisIn(axis_attr, merged.rank() + 1));
  Dims dims(merged.dims().begin(), merged.dims().end());
  dims.insert(dims.begin() + axis, c.num_inputs());
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

absl::Status PackGradient(GradientContext& c) {
  ASSIGN_OR_RETURN(const int64_t axis, c.Attr<int64_t>("axis"));
  const int n = c.node()->num_inputs();
  const std::vector<Output> parts = Unpack(c.scope(), c.dy(), n, static_cast<int>(axis));
  for (int i = 0; i < n; ++i) c.set_dx(i, parts[i]);
  return absl::OkStatus();
}

class UnpackKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(axis_, init.Attr<int64_t>("axis"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& value = c.input(0);
    ASSIGN_OR_RETURN(const int axis, AxisIn(axis_, value.rank()));
    const int64_t n = value.dim(axis);
    if (n != c.num_outputs()) {
      return InvalidArgument("Input shape axis ", axis, " must equal ", c.num_outputs(), ", got shape ", value.shape());
    }
    Shape shape = value.shape();
    shape.RemoveDim(axis);
    const int64_t rows = shape.Product(0, axis);
    const int64_t width = shape.Product(axis, shape.rank());
    const Shape by_part({n, width});
    for (int i = 0; i < n; ++i) {
      if (rows == 1 && WorthSharing(value.dtype(), width)) {
        c.set_output(i, value.WithShape(by_part).Rows(i, i + 1).WithShape(shape));
        continue;
      }
      ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(i, shape));
      RETURN_IF_ERROR(CopyStrided(c, {rows, width}, value, {.offset = i * width, .strides = {n * width, 1}}, out,
                                  {.strides = {width, 1}}));
    }
    return absl::OkStatus();
  }

 private:
  int64_t axis_ = 0;
};

absl::Status UnpackShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const int64_t axis_attr, c.Attr<int64_t>("axis"));
  const PartialShape& value = c.input(0);
  if (!value.has_rank()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int axis, AxisIn(axis_attr, value.rank()));
  RETURN_IF_ERROR(MergeDims(value.dim(axis), c.num_outputs()).status());
  const PartialShape part = Concatenate(SubShape(value, 0, axis), SubShape(value, axis + 1));
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, part);
  return absl::OkStatus();
}

absl::Status UnpackGradient(GradientContext& c) {
  ASSIGN_OR_RETURN(const int64_t axis, c.Attr<int64_t>("axis"));
  std::vector<Output> dys;
  for (int i = 0; i < c.node()->num_outputs(); ++i) dys.push_back(c.dy(i));
  c.set_dx(0, Pack(c.scope(), dys, static_cast<int>(axis)));
  return absl::OkStatus();
}

const OpRegistration kPackOps[] = {
    Op("Pack")
        .Input("values: N * T")
        .Output("output: T")
        .Attr("N: int >= 1")
        .Attr("T: type")
        .Attr("axis: int = 0")
        .Shape(PackShape)
        .Kernel<PackKernel>()
        .Gradient(PackGradient),
    Op("Unpack")
        .Input("value: T")
        .Output("output: num * T")
        .Attr("num: int >= 0")
        .Attr("T: type")
        .Attr("axis: int = 0")
        .Shape(UnpackShape)
        .Kernel<UnpackKernel>()
        .Gradient(UnpackGradient),
};

}  // namespace

Output Pack(const Scope& s, const std::vector<Output>& values, int axis) {
  return s.Add("Pack", {values}, {{"axis", axis}});
}

std::vector<Output> Unpack(const Scope& s, Output value, int num, int axis) {
  Node* const node = s.Add("Unpack", {value}, {{"num", num}, {"axis", axis}});
  std::vector<Output> outputs;
  for (int i = 0; i < num; ++i) outputs.emplace_back(node, i);
  return outputs;
}

}  // namespace thalweg
