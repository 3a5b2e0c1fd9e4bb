// SPDX-License-Identifier: Apache-2.0
// ScatterNd ops: slices of a variable that index vectors name are set to, or
// combined with, slices of `updates`:
//
//   ref[indices[i...]] op= updates[i...]
//
// Nothing is changed if an index is wrong. Ref forms pass the variable on.
// ResourceGatherNd reads such slices.
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array/gather_nd.h"
#include "thalweg/ops/state/variable_update.h"

namespace thalweg {
namespace {

class VariableScatterNdKernel : public Kernel {
 public:
  explicit VariableScatterNdKernel(ScatterKind kind) : kind_(kind) {}

  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const HeldVariable variable, FindVariable(context, 0));
    const Tensor &indices = context.input(1), &updates = context.input(2);
    RETURN_IF_ERROR(variable->UpdateRows([&](Tensor& value) -> absl::Status {
      RETURN_IF_ERROR(CheckInitialized(*variable, value));
      if (value.dtype() != updates.dtype()) {
        return InvalidArgument("DType of scatter resource and updates does not match: ", value.dtype(), " and ",
                               updates.dtype());
      }
      RETURN_IF_ERROR(CheckScatterNd(indices, updates, value.shape()));
      if (value.num_elements() == 0 && updates.num_elements() > 0) {
        return InvalidArgument("Indices and updates specified for empty output");
      }
      ASSIGN_OR_RETURN(const SliceNumbers slices, FindScatterSlices(indices, value.shape()));
      const int depth = static_cast<int>(indices.dim(indices.rank() - 1));
      RETURN_IF_ERROR(variable->MakeRowsWritable(
          slices, value.shape().Product(depth, value.rank()) * Buffer::Stride(value.dtype())));
      return ScatterSlices(kind_, indices, updates, &value);
    }));
    if (context.num_outputs() > 0) context.set_variable(0, &context.variable(0));
    return absl::OkStatus();
  }

 private:
  const ScatterKind kind_;
};

absl::Status ResourceGatherNd(KernelContext& context) {
  ASSIGN_OR_RETURN(const HeldVariable variable, FindVariable(context, 0));
  return variable->Inspect([&](const Tensor& value) -> absl::Status {
    RETURN_IF_ERROR(CheckInitialized(*variable, value));
    if (value.dtype() != context.output_type(0)) {
      return InvalidArgument("Trying to read variable with wrong dtype. Expected ", context.output_type(0), " got ",
                             value.dtype());
    }
    return GatherSlices(context, value, context.input(1));
  });
}

absl::Status VariableShape(ShapeContext& c) {
  if (c.num_outputs() > 0) c.set_output(0, VariableShapeOf(c, 0));
  return absl::OkStatus();
}

Op RefScatterNd(const char* name, ScatterKind kind) {
  const bool update = kind == ScatterKind::kUpdate;
  return Op(name)
      .Input("ref: Ref(T)")
      .Input("indices: Tindices")
      .Input("updates: T")
      .Output("output_ref: Ref(T)")
      .Attr(update ? "T: type" : "T: numbertype")
      .Attr("Tindices: {int32, int64}")
      .Attr(update ? "use_locking: bool = true" : "use_locking: bool = false")
      .Shape(VariableShape)
      .Kernel<VariableScatterNdKernel>(kind)
      .NotDifferentiable();
}

Op ResourceScatterNd(const char* name, ScatterKind kind) {
  return Op(name)
      .Input("ref: resource")
      .Input("indices: Tindices")
      .Input("updates: T")
      .Attr("T: type")
      .Attr("Tindices: {int32, int64}")
      .Attr("use_locking: bool = true")
      .Stateful()
      .Shape(shapes::NoOutputs)
      .Kernel<VariableScatterNdKernel>(kind)
      .NotDifferentiable();
}

const OpRegistration kScatterNdVariableOps[] = {
    RefScatterNd("ScatterNdUpdate", ScatterKind::kUpdate),
    RefScatterNd("ScatterNdAdd", ScatterKind::kAdd),
    RefScatterNd("ScatterNdSub", ScatterKind::kSub),
    RefScatterNd("ScatterNdMax", ScatterKind::kMax),
    RefScatterNd("ScatterNdMin", ScatterKind::kMin),
    ResourceScatterNd("ResourceScatterNdUpdate", ScatterKind::kUpdate),
    ResourceScatterNd("ResourceScatterNdAdd", ScatterKind::kAdd),
    ResourceScatterNd("ResourceScatterNdSub", ScatterKind::kSub),
    ResourceScatterNd("ResourceScatterNdMax", ScatterKind::kMax),
    ResourceScatterNd("ResourceScatterNdMin", ScatterKind::kMin),
    Op("ResourceGatherNd")
        .Input("resource: resource")
        .Input("indices: Tindices")
        .Output("output: dtype")
        .Attr("dtype: type")
        .Attr("Tindices: {int32, int64}")
        .Stateful()
        .Shape(shapes::Unknown)
        .Compute(ResourceGatherNd),
};

}  // namespace
}  // namespace thalweg
