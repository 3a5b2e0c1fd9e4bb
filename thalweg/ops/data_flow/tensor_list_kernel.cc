// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/data_flow/tensor_list_kernel.h"

#include "thalweg/base/status.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {

absl::StatusOr<ListPtr> ListInput(KernelContext& c, int i) {
  if (!c.input(i).shape().is_scalar()) {
    return InvalidArgument("Input list must be a scalar saw: ", c.input(i).shape());
  }
  return ListIn(c.input(i).scalar<Variant>());
}

absl::Status CheckListType(const TensorList& list, DType dtype) {
  if (list.dtype == dtype) return absl::OkStatus();
  return InvalidArgument("Invalid data types; op elements ", dtype, " but list elements ", list.dtype);
}

absl::StatusOr<int64_t> IntegerInput(KernelContext& c, int i, const char* what) {
  if (c.input(i).shape().is_scalar()) return c.input(i).scalar<int32_t>();
  return InvalidArgument(what, " must be a scalar, got ", c.input(i).shape());
}

absl::StatusOr<PartialShape> ListShapeIn(const Tensor& t) {
  if (t.rank() > 1) return InvalidArgument("Shape must be at most rank 1 but is rank ", t.rank());
  const Dims sizes = ReadIntegers(t);
  if (t.rank() == 0) {
    if (sizes[0] == -1) return PartialShape();
    return InvalidArgument("The only valid scalar shape tensor is the fully unknown shape specified as -1.");
  }
  if (sizes.size() > Shape::kMaxRank) return InvalidArgument("a shape of rank ", sizes.size());
  int64_t product = 1;
  for (const int64_t size : sizes) {
    if (size < -1) return InvalidArgument("Dimension ", size, " must be >= -1");
    if (size > 0 && __builtin_mul_overflow(product, size, &product)) {
      return InvalidArgument("a shape with too many elements");
    }
  }
  return PartialShape(sizes);
}

absl::Status CheckListRows(const Tensor& t) {
  if (t.rank() > 0) return absl::OkStatus();
  return InvalidArgument("Tensor must be at least a vector, but saw shape: ", t.shape());
}

void ChangeList(KernelContext& c, ListPtr list, absl::FunctionRef<void(TensorList&)> change) {
  Tensor handle = c.TakeInput(0);
  const bool only_one = handle.unique() && handle.scalar<Variant>().As<TensorList>() == list.get() &&
                        list.use_count() == 2;  // the handle's and ours
  std::shared_ptr<TensorList> own;
  if (only_one) {
    own = std::const_pointer_cast<TensorList>(list);  // safe, because no list is created as const
  } else {
    own = std::make_shared<TensorList>(*list);
    handle = TensorOf(own);
  }
  change(*own);
  c.set_output(0, std::move(handle));
}

absl::StatusOr<PartialShape> MergeElementShapes(const PartialShape& a, const PartialShape& b) {
  absl::StatusOr<PartialShape> merged = PartialShape::Merge(a, b);
  if (merged.ok()) return merged;
  if (a.rank() != b.rank()) {  // both are known, or they would have merged
    return InvalidArgument("PartialTensorShape: Incompatible ranks during merge: ", a.rank(), " vs. ", b.rank());
  }
  return InvalidArgument("PartialTensorShape: Incompatible shapes during merge: ", a, " vs. ", b);
}
absl::StatusOr<PartialShape> KnownElementShape(KernelContext& c, const TensorList& list, int i) {
  ASSIGN_OR_RETURN(const PartialShape given, ListShapeIn(c.input(i)));
  return MergeElementShapes(given, list.element_shape);
}
absl::Status MergeElements(absl::Span<const Tensor> elements, PartialShape* shape) {
  for (const Tensor& t : elements) {
    if (t.has_value()) {
      ASSIGN_OR_RETURN(*shape, MergeElementShapes(*shape, t.shape()));
    }
  }
  return absl::OkStatus();
}
absl::StatusOr<Tensor> ZeroElement(DType dtype, const Shape& shape) {
  ASSIGN_OR_RETURN(Tensor zeros, Tensor::Allocate(dtype, shape));
  ClearElements(&zeros);
  return zeros;
}

absl::Status ListShape(ShapeContext& c) {
  c.set_output(0, PartialShape(Shape()));
  return absl::OkStatus();
}

}  // namespace thalweg
