// SPDX-License-Identifier: Apache-2.0
// Shared by the ops on tensor lists. Every op returns a new list; other holders of the old list see
// it unchanged.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "thalweg/graph/shape_context.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/ops/data_flow/tensor_list.h"

namespace thalweg {

// Attributes that most of the ops have.
inline constexpr char kListType[] = "element_dtype: type";
inline constexpr char kListShapeType[] = "shape_type: {int32, int64}";

using ListPtr = std::shared_ptr<const TensorList>;

// The list in input i.
absl::StatusOr<ListPtr> ListInput(KernelContext& c, int i);
// The integer in input i. `what` names it in errors.
absl::StatusOr<int64_t> IntegerInput(KernelContext& c, int i, const char* what);

// Reads an element shape: sizes, in which -1 is unknown, or a scalar -1 for an unknown rank.
absl::StatusOr<PartialShape> ListShapeIn(const Tensor& t);

// INVALID_ARGUMENT if the list has elements of another type.
absl::Status CheckListType(const TensorList& list, DType dtype);
// INVALID_ARGUMENT if `t` has no rows.
absl::Status CheckListRows(const Tensor& t);

// Moves the list of input 0 to the output and applies `change` to it: in place if nobody else holds
// it, otherwise to a copy. Check arguments before.
void ChangeList(KernelContext& c, ListPtr list, absl::FunctionRef<void(TensorList&)> change);

// The shape of elements that are not set, from the list, input i, and the other elements.
absl::StatusOr<PartialShape> MergeElementShapes(const PartialShape& a, const PartialShape& b);
absl::StatusOr<PartialShape> KnownElementShape(KernelContext& c, const TensorList& list, int i);
absl::Status MergeElements(absl::Span<const Tensor> elements, PartialShape* shape);
// The value of an element that was not set: zeros.
absl::StatusOr<Tensor> ZeroElement(DType dtype, const Shape& shape);

// Output 0 is a list, others are not known.
absl::Status ListShape(ShapeContext& c);

}  // namespace thalweg
