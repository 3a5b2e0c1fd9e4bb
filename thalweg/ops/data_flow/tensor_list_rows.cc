// SPDX-License-Identifier: Apache-2.0
// Lists of tensors from the rows of a tensor, and a tensor from a list: Stack and
// Gather, FromTensor and ListScatter.
#include <algorithm>

#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow/tensor_list.h"
#include "thalweg/ops/data_flow/tensor_list_kernel.h"
#include "thalweg/ops/support/tuple_batch.h"

namespace thalweg {
namespace {

// Stacks tensors of one shape; zeros where there is no value.
absl::Status SetStacked(KernelContext& c, PoolVector<Tensor> elements, DType dtype, const Shape& shape) {
  Dims dims(shape.dims().begin(), shape.dims().end());
  dims.insert(dims.begin(), static_cast<int64_t>(elements.size()));
  ASSIGN_OR_RETURN(const Shape whole, Shape::Make(dims));
  ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, whole));
  if (whole.num_elements() == 0) return absl::OkStatus();
  Tensor zeros;
  for (Tensor& element : elements) {
    if (element.has_value()) continue;
    if (!zeros.has_value()) {
      ASSIGN_OR_RETURN(zeros, ZeroElement(dtype, shape));
    }
    element = zeros;
  }
  return JoinTensors(c, elements, out);
}

class ListStackKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(num_elements_, init.Attr<int64_t>("num_elements"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const ListPtr list, ListInput(c, 0));
    RETURN_IF_ERROR(CheckListType(*list, c.output_type(0)));
    const auto size = static_cast<int64_t>(list->elements.size());
    if (num_elements_ != -1 && num_elements_ != size) {
      return InvalidArgument("Operation expected a list with ", num_elements_, " elements but got a list with ", size,
                             " elements.");
    }
    ASSIGN_OR_RETURN(PartialShape shape, KnownElementShape(c, *list, 1));
    if (!shape.fully_known() && size == 0) {
      return InvalidArgument("Tried to stack elements of an empty list with non-fully-defined element_shape: ", shape);
    }
    if (!list->element_shape.fully_known()) RETURN_IF_ERROR(MergeElements(list->elements, &shape));
    if (!shape.fully_known()) {
      return InvalidArgument(
          "Tried to stack list which only contains uninitialized tensors and has a non-fully-defined element_shape: ",
          shape);
    }
    return SetStacked(c, list->elements, list->dtype, *shape.AsShape());
  }

 private:
  int64_t num_elements_ = -1;
};

absl::Status Gather(KernelContext& c) {
  ASSIGN_OR_RETURN(const ListPtr list, ListInput(c, 0));
  RETURN_IF_ERROR(CheckListType(*list, c.output_type(0)));
  const auto indices = c.input(1).flat<int32_t>();
  ASSIGN_OR_RETURN(PartialShape shape, KnownElementShape(c, *list, 2));
  if (!shape.fully_known() && indices.empty()) {
    return InvalidArgument("Tried to gather 0-elements from a list with non-fully-defined shape: ", shape);
  }
  PoolVector<Tensor> elements;
  elements.reserve(indices.size());
  for (const int32_t i : indices) {
    if (i < 0 || i >= static_cast<int64_t>(list->elements.size())) {
      return InvalidArgument("Trying to gather element ", i, " in a list with ", list->elements.size(), " elements.");
    }
    elements.push_back(list->elements[i]);
  }
  RETURN_IF_ERROR(MergeElements(elements, &shape));
  if (!shape.fully_known()) {
    return InvalidArgument("Tried to gather uninitialized tensors from a list with non-fully-defined element_shape: ",
                           shape);
  }
  return SetStacked(c, std::move(elements), list->dtype, *shape.AsShape());
}

absl::Status CheckRowShape(const PartialShape& element_shape, const Tensor& t) {
  Shape row = t.shape();
  row.RemoveDim(0);
  if (element_shape.Accepts(row)) return absl::OkStatus();
  return InvalidArgument("Specified a list with shape ", element_shape, " from a tensor with shape ", row);
}

absl::Status FromTensor(KernelContext& c) {
  const Tensor& t = c.input(0);
  RETURN_IF_ERROR(CheckListRows(t));
  auto list = std::make_shared<TensorList>();
  list->dtype = t.dtype();
  ASSIGN_OR_RETURN(list->element_shape, ListShapeIn(c.input(1)));
  RETURN_IF_ERROR(CheckRowShape(list->element_shape, t));
  if (t.dim(0) > TensorList::kMaxSize) return ResourceExhausted("a list of ", t.dim(0), " tensors");
  list->elements.reserve(t.dim(0));
  for (int64_t i = 0; i < t.dim(0); ++i) list->elements.push_back(ShareRow(t, i));
  c.set_output(0, TensorOf(std::move(list)));
  return absl::OkStatus();
}

absl::Status ListScatter(KernelContext& c) {
  const Tensor& t = c.input(0);
  RETURN_IF_ERROR(CheckListRows(t));
  const auto indices = c.input(1).flat<int32_t>();
  auto list = std::make_shared<TensorList>();
  list->dtype = t.dtype();
  ASSIGN_OR_RETURN(list->element_shape, ListShapeIn(c.input(2)));
  int64_t size = -1;
  if (c.num_inputs() > 3) {
    ASSIGN_OR_RETURN(size, IntegerInput(c, 3, "num_elements"));
  }
  if (size < -1) return InvalidArgument("TensorListScatter expects num_elements >= -1, found: ", size);
  RETURN_IF_ERROR(CheckRowShape(list->element_shape, t));
  if (static_cast<int64_t>(indices.size()) != t.dim(0)) {
    return InvalidArgument("Invalid number of rows in input tensor. Expected: ", indices.size(), " Actual: ", t.dim(0));
  }
  int64_t highest = -1;
  for (const int32_t i : indices) {
    if (i < 0) return InvalidArgument("Indices in TensorListScatter must all be non-negative.");
    if (size != -1 && i >= size) {
      return InvalidArgument("TensorListScatter: Trying to scatter at index ", i, " in list with size ", size);
    }
    highest = std::max<int64_t>(highest, i);
  }
  size = std::max(size, highest + 1);
  if (size > TensorList::kMaxSize) return ResourceExhausted("a list of ", size, " tensors");
  list->elements.resize(size);
  for (size_t i = 0; i < indices.size(); ++i) list->elements[indices[i]] = ShareRow(t, i);
  c.set_output(0, TensorOf(std::move(list)));
  return absl::OkStatus();
}

absl::Status ScatterIntoExisting(KernelContext& c) {
  ASSIGN_OR_RETURN(ListPtr list, ListInput(c, 0));
  const Tensor t = c.input(1);
  if (t.dtype() != list->dtype) {
    return InvalidArgument("Invalid data types; input tensor type: ", t.dtype(), " list element_type: ", list->dtype);
  }
  RETURN_IF_ERROR(CheckListRows(t));
  const Tensor numbers = c.input(2);
  if (!numbers.shape().is_vector()) {
    return InvalidArgument("Expected indices to be a vector, but received shape: ", numbers.shape());
  }
  const auto indices = numbers.flat<int32_t>();
  if (static_cast<int64_t>(indices.size()) != t.dim(0)) {
    return InvalidArgument("Expected len(indices) == tensor.shape[0], but saw: ", indices.size(), " vs. ", t.dim(0));
  }
  int64_t highest = -1;
  for (const int32_t i : indices) {
    if (i < 0) return InvalidArgument("Indices in TensorListScatter must all be non-negative.");
    highest = std::max<int64_t>(highest, i);
  }
  if (highest >= TensorList::kMaxSize) return ResourceExhausted("element ", highest, " of a list");
  ChangeList(c, std::move(list), [&](TensorList& l) {
    if (highest >= static_cast<int64_t>(l.elements.size())) l.elements.resize(highest + 1);
    for (size_t i = 0; i < indices.size(); ++i) l.elements[indices[i]] = ShareRow(t, i);
  });
  return absl::OkStatus();
}

absl::Status StackGradient(GradientContext& c) {
  const Scope& s = c.scope();
  c.set_dx(0, Output(s.Add("TensorListFromTensor", {c.dy(), Const(s, -1)})));
  return absl::OkStatus();
}

absl::Status FromTensorGradient(GradientContext& c) {
  const Scope& s = c.scope();
  const Output row = Slice(s, ShapeOf(s, c.input(0)), Const(s, {1}), Const(s, {-1}));
  c.set_dx(0, Output(s.Add("TensorListStack", {c.dy(), row}, {{"element_dtype", c.input(0).dtype()}})));
  return absl::OkStatus();
}

const OpRegistration kTensorListRowsOps[] = {
    Op("TensorListStack")
        .Input("input_handle: variant")
        .Input("element_shape: int32")
        .Output("tensor: element_dtype")
        .Attr(kListType)
        .Attr("num_elements: int = -1")
        .Shape(shapes::Unknown)
        .Kernel<ListStackKernel>()
        .Gradient(StackGradient),
    Op("TensorListFromTensor")
        .Input("tensor: element_dtype")
        .Input("element_shape: shape_type")
        .Output("output_handle: variant")
        .Attr(kListType)
        .Attr(kListShapeType)
        .Shape(ListShape)
        .Compute(FromTensor)
        .Gradient(FromTensorGradient),
    Op("TensorListGather")
        .Input("input_handle: variant")
        .Input("indices: int32")
        .Input("element_shape: int32")
        .Output("values: element_dtype")
        .Attr(kListType)
        .Shape(shapes::Unknown)
        .Compute(Gather),
    Op("TensorListScatter")
        .Input("tensor: element_dtype")
        .Input("indices: int32")
        .Input("element_shape: shape_type")
        .Output("output_handle: variant")
        .Attr(kListType)
        .Attr(kListShapeType)
        .Shape(ListShape)
        .Compute(ListScatter),
    Op("TensorListScatterV2")
        .Input("tensor: element_dtype")
        .Input("indices: int32")
        .Input("element_shape: shape_type")
        .Input("num_elements: int32")
        .Output("output_handle: variant")
        .Attr(kListType)
        .Attr(kListShapeType)
        .Shape(ListShape)
        .Compute(ListScatter),
    Op("TensorListScatterIntoExistingList")
        .Input("input_handle: variant")
        .Input("tensor: element_dtype")
        .Input("indices: int32")
        .Output("output_handle: variant")
        .Attr(kListType)
        .Shape(ListShape)
        .Compute(ScatterIntoExisting),
};

}  // namespace
}  // namespace thalweg
