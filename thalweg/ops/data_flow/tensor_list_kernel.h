// What the ops on lists of tensors have in common. Every op gives a new list; the
// old one stays as it was for who else has it.
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
// The integer in input i, which is called `what` in the error.
absl::StatusOr<int64_t> IntegerInput(KernelContext& c, int i, const char* what);

// A shape with unknown sizes (-1), or -1: nothing is known.
absl::StatusOr<PartialShape> ListShapeIn(const Tensor& t);

// INVALID_ARGUMENT if the list has elements of another type.
absl::Status CheckListType(const TensorList& list, DType dtype);
// INVALID_ARGUMENT if `t` has no rows.
absl::Status CheckListRows(const Tensor& t);

// Makes the list of input 0 the output, for `change` to work on: itself if
// nobody else sees it, else a copy. What is read before must be checked before.
void ChangeList(KernelContext& c, ListPtr list, absl::FunctionRef<void(TensorList&)> change);

// The shape of elements without value: what the list and input i know, and the
// other elements.
absl::StatusOr<PartialShape> MergeElementShapes(const PartialShape& a, const PartialShape& b);
absl::StatusOr<PartialShape> KnownElementShape(KernelContext& c, const TensorList& list, int i);
absl::Status MergeElements(absl::Span<const Tensor> elements, PartialShape* shape);
// An element that was not set.
absl::StatusOr<Tensor> ZeroElement(DType dtype, const Shape& shape);

// Output 0 is a list, others are not known.
absl::Status ListShape(ShapeContext& c);

}  // namespace thalweg
