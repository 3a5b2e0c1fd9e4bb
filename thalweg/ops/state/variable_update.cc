// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/state/variable_update.h"

#include <algorithm>

#include "thalweg/base/exported_memory.h"
#include "thalweg/base/status.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

// The VarHandleOp that made a handle, if it is in sight.
const Node* HandleSource(const Output& output) {
  const Node* node = output.node;
  while (node->op() == "Identity" || node->op() == "Enter") node = node->input(0).node;
  return node->op() == "VarHandleOp" ? node : nullptr;
}

}  // namespace

absl::StatusOr<ResourceHandle> HandleOf(KernelContext& context, int i) {
  const Tensor& input = context.input(i);
  if (input.dtype() != kResource || input.num_elements() != 1) {
    return InvalidArgument("input ", i, " must be one resource handle, got ", input.dtype(), " ", input.shape());
  }
  return input.scalar<ResourceHandle>();
}

absl::StatusOr<HeldVariable> FindVariable(KernelContext& context, int i) {
  if (context.is_variable(i)) return HeldVariable{&context.variable(i), nullptr};
  const Tensor& input = context.input(i);
  if (input.dtype() != kResource || input.num_elements() != 1) {
    return InvalidArgument("input ", i, " must be a variable, got ", input.dtype(), " ", input.shape());
  }
  const ResourceHandle& handle = input.scalar<ResourceHandle>();
  if (handle.device != context.device().name()) {
    return InvalidArgument("Trying to access resource ", handle.name, " located in device ", handle.device,
                           " from device ", context.device().name());
  }
  absl::StatusOr<std::shared_ptr<ResourceVariable>> found =
      context.device().resources().Find<ResourceVariable>(handle.container, handle.name);
  if (!found.ok()) {
    return NotFound("Resource ", handle.container, "/", handle.name, "/N10tensorflow3VarE does not exist.");
  }
  Variable* const variable = found->get();
  return HeldVariable{variable, *std::move(found)};
}

absl::Status CheckInitialized(const Variable& variable, const Tensor& value) {
  if (value.has_value()) [[likely]]
    return absl::OkStatus();
  return FailedPrecondition("Attempting to use uninitialized value ", variable.name());
}

absl::Status LockedVariables::Lock(KernelContext& context, int n) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  for (int i = 0; i < n; ++i) {
    ASSIGN_OR_RETURN(held_[i], FindVariable(context, i));
    order_[i] = held_[i].variable;
  }
  std::sort(order_.begin(), order_.begin() + n);
  const int distinct = static_cast<int>(std::unique(order_.begin(), order_.begin() + n) - order_.begin());
  for (; locked_ < distinct; ++locked_) order_[locked_]->mutex().Lock();
  for (int i = 0; i < n; ++i) RETURN_IF_ERROR(CheckInitialized(*held_[i], held_[i]->value()));
  return absl::OkStatus();
}

LockedVariables::~LockedVariables() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  while (locked_ > 0) order_[--locked_]->mutex().Unlock();
}

Tensor& LockedVariables::value(int i) const ABSL_NO_THREAD_SAFETY_ANALYSIS { return held_[i]->value(); }

Tensor& LockedVariables::mutable_value(int i) const ABSL_NO_THREAD_SAFETY_ANALYSIS { return held_[i]->mutable_value(); }

absl::Status InPlaceOrNew::Prepare(KernelContext& context, Tensor& value) {
  value_ = &value;
  if (value.unique()) return absl::OkStatus();
  if (ExportedMemory::Global().Holds(value.raw(), 1)) {
    ExportedMemory::Global().Reclaim();  // readers in other processes may have let go of it
    if (value.unique()) return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(fresh_, context.AllocateTemporary(value.dtype(), value.shape()));
  return absl::OkStatus();
}

PartialShape VariableShapeOf(const ShapeContext& c, int i) {
  const Output& input = c.node().input(i);
  if (IsRef(input.dtype())) return c.input(i);
  const Node* source = HandleSource(input);
  if (source == nullptr) return PartialShape();
  absl::StatusOr<PartialShape> shape = GetAttr<PartialShape>(source->def(), "shape");
  return shape.ok() ? *std::move(shape) : PartialShape();
}

DType VariableTypeOf(const ShapeContext& c, int i) {
  const Output& input = c.node().input(i);
  if (IsRef(input.dtype())) return RemoveRef(input.dtype());
  const Node* source = HandleSource(input);
  if (source == nullptr) return kInvalid;
  absl::StatusOr<DType> dtype = GetAttr<DType>(source->def(), "dtype");
  return dtype.ok() ? *dtype : kInvalid;
}

}  // namespace thalweg
