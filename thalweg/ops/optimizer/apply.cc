// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/optimizer/apply.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace thalweg {
namespace {

bool IsGradient(absl::string_view name) { return name == "grad" || name == "delta"; }

const std::string& Name(const KernelContext& context, int input) {
  return context.node().schema()->def.input_arg(input).name();
}

int NumSlots(const tensorflow::OpDef& op) {
  int slots = 0;
  for (const auto& arg : op.input_arg()) {
    if (!arg.is_ref() && arg.type() != tensorflow::DT_RESOURCE) break;
    ++slots;
  }
  return slots;
}

absl::Status CheckDense(const KernelContext& context, const ApplyInputs& inputs, const Shape& var) {
  const Shape& gradient = context.input(inputs.gradient).shape();
  if (gradient == var) return absl::OkStatus();
  return InvalidArgument("var and ", Name(context, inputs.gradient), " do not have the same shape", var, " ", gradient);
}

template <typename Index>
absl::Status CheckRows(const Tensor& indices, int64_t rows) {
  const Index* const data = indices.data<Index>();
  for (int64_t i = 0; i < indices.num_elements(); ++i) {
    if (data[i] < 0 || data[i] >= rows) {
      return InvalidArgument("Index ", static_cast<int64_t>(data[i]), " at offset ", i,
                             " in indices is out of range [0, ", rows, ")");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSparse(const KernelContext& context, const ApplyInputs& inputs, const Shape& var) {
  const Shape& gradient = context.input(inputs.gradient).shape();
  const Tensor& indices = context.input(inputs.indices);
  if (var.rank() < 1) return InvalidArgument("var must be at least 1 dimensional, got shape ", var);
  if (!indices.shape().is_vector())
    return InvalidArgument("indices must be one-dimensional, got shape ", indices.shape());
  if (gradient.rank() != var.rank()) {
    return InvalidArgument("var and grad must have the same number of dimensions, got ", var, " and ", gradient);
  }
  if (gradient.dim(0) != indices.dim(0)) {
    return InvalidArgument("grad must be the same size as indices in the first dimension. Got ", gradient, " and ",
                           indices.shape());
  }
  for (int d = 1; d < var.rank(); ++d) {
    if (var.dim(d) != gradient.dim(d)) {
      return InvalidArgument("var and grad must match in dimension ", d, ", got ", var, " and ", gradient);
    }
  }
  return indices.dtype() == kInt32 ? CheckRows<int32_t>(indices, var.dim(0)) : CheckRows<int64_t>(indices, var.dim(0));
}

// All variables and a dense gradient have one shape, the rest are scalars.
absl::Status ApplyShape(ShapeContext& c) {
  const tensorflow::OpDef& op = c.node().schema()->def;
  const ApplyInputs inputs = FindApplyInputs(op, NumSlots(op));
  PartialShape merged;
  for (int i = 0; i < inputs.slots; ++i) {
    ASSIGN_OR_RETURN(merged, PartialShape::Merge(merged, VariableShapeOf(c, i)));
  }
  for (int i = 0; i < inputs.num_scalars; ++i) RETURN_IF_ERROR(c.RequireScalar(inputs.scalars[i]));
  if (inputs.indices < 0) {
    ASSIGN_OR_RETURN(merged, PartialShape::Merge(merged, c.input(inputs.gradient)));
  } else {
    RETURN_IF_ERROR(c.WithRank(inputs.indices, 1).status());
  }
  if (c.num_outputs() > 0) c.set_output(0, std::move(merged));
  return absl::OkStatus();
}

}  // namespace

ApplyInputs FindApplyInputs(const tensorflow::OpDef& op, int slots) {
  ApplyInputs inputs;
  inputs.slots = slots;
  for (int i = slots; i < op.input_arg_size(); ++i) {
    const std::string& name = op.input_arg(i).name();
    if (IsGradient(name)) {
      inputs.gradient = i;
    } else if (name == "indices") {
      inputs.indices = i;
    } else {
      CHECK(inputs.num_scalars < ApplyInputs::kMaxScalars) << op.name();
      // "alpha" is the learning rate of gradient descent, and something else beside an "lr".
      if (name == "lr" || (name == "alpha" && inputs.learning_rate < 0)) inputs.learning_rate = inputs.num_scalars;
      inputs.scalars[inputs.num_scalars++] = i;
    }
  }
  return inputs;
}

absl::Status CheckApply(const KernelContext& context, const ApplyInputs& inputs, const LockedVariables& variables) {
  const Tensor& gradient = context.input(inputs.gradient);
  const Shape& var = variables.value(0).shape();
  for (int i = 0; i < inputs.slots; ++i) {
    const Tensor& value = variables.value(i);
    if (!(value.shape() == var)) {
      return InvalidArgument("var and ", Name(context, i), " do not have the same shape", var, " ", value.shape());
    }
    if (value.dtype() != gradient.dtype()) {
      return InvalidArgument(Name(context, i), " is of type ", value.dtype(), ", expected ", gradient.dtype());
    }
  }
  for (int i = 0; i < inputs.num_scalars; ++i) {
    const Shape& shape = context.input(inputs.scalars[i]).shape();
    if (!shape.is_scalar()) return InvalidArgument(Name(context, inputs.scalars[i]), " is not a scalar: ", shape);
  }
  return inputs.indices < 0 ? CheckDense(context, inputs, var) : CheckSparse(context, inputs, var);
}

absl::StatusOr<Tensor> WideIndices(KernelContext& context, const Tensor& indices) {
  if (indices.dtype() == kInt64) return indices;
  ASSIGN_OR_RETURN(Tensor wide, context.AllocateTemporary(kInt64, indices.shape()));
  std::copy(indices.flat<int32_t>().begin(), indices.flat<int32_t>().end(), wide.mutable_data<int64_t>());
  return wide;
}

Op ApplyOp(absl::string_view name, absl::string_view slots, absl::string_view inputs,
           std::initializer_list<absl::string_view> attrs) {
  const bool resource = absl::StartsWith(name, "Resource");
  bool sparse = false;
  Op op(name);
  for (const absl::string_view slot : absl::StrSplit(slots, ' ')) {
    op.Input(absl::StrCat(slot, resource ? ": resource" : ": Ref(T)"));
  }
  for (const absl::string_view input : absl::StrSplit(inputs, ' ')) {
    sparse = sparse || input == "indices";
    op.Input(absl::StrCat(input, input == "indices" ? ": Tindices" : input == "global_step" ? ": int64" : ": T"));
  }
  if (!resource) op.Output("out: Ref(T)");
  op.Attr("T: numbertype");
  if (sparse) op.Attr("Tindices: {int32, int64}");
  op.Attr("use_locking: bool = false");
  for (const absl::string_view attr : attrs) op.Attr(attr);
  if (resource) op.Stateful();
  return op.Shape(ApplyShape);
}

}  // namespace thalweg
