// SPDX-License-Identifier: Apache-2.0
// Lists of tensors, as values, and their single elements.
#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow/tensor_list.h"
#include "thalweg/ops/data_flow/tensor_list_kernel.h"
#include "thalweg/ops/support/tuple_batch.h"

namespace thalweg {
namespace {

class EmptyKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(dtype_, init.Attr<DType>("element_dtype"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    if (!c.input(1).shape().is_scalar()) {
      return InvalidArgument("max_num_elements expected to be a scalar but got shape: ", c.input(1).shape());
    }
    auto list = std::make_shared<TensorList>();
    list->dtype = dtype_;
    list->max_elements = c.input(1).scalar<int32_t>();
    ASSIGN_OR_RETURN(list->element_shape, ListShapeIn(c.input(0)));
    c.set_output(0, TensorOf(std::move(list)));
    return absl::OkStatus();
  }

 private:
  DType dtype_ = kInvalid;
};

class ReserveKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(dtype_, init.Attr<DType>("element_dtype"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    auto list = std::make_shared<TensorList>();
    list->dtype = dtype_;
    ASSIGN_OR_RETURN(list->element_shape, ListShapeIn(c.input(0)));
    ASSIGN_OR_RETURN(const int64_t size, IntegerInput(c, 1, "The num_elements to reserve"));
    if (size < 0) {
      return InvalidArgument("The num_elements to reserve must be a non negative number, but got ", size);
    }
    if (size > TensorList::kMaxSize) return ResourceExhausted("a list of ", size, " tensors");
    // The elements stay empty tensors until they are set. Reading one gives zeros: see GetItem().
    list->elements.resize(size);
    c.set_output(0, TensorOf(std::move(list)));
    return absl::OkStatus();
  }

 private:
  DType dtype_ = kInvalid;
};

absl::Status PushBack(KernelContext& c) {
  const Tensor value = c.input(1);
  ASSIGN_OR_RETURN(ListPtr list, ListInput(c, 0));
  if (!list->element_shape.Accepts(value.shape())) {
    return InvalidArgument("Tried to append a tensor with incompatible shape to a list. Op element shape: ",
                           value.shape(), " list shape: ", list->element_shape);
  }
  RETURN_IF_ERROR(CheckListType(*list, value.dtype()));
  const auto size = static_cast<int64_t>(list->elements.size());
  if (list->max_elements != -1 && size >= list->max_elements) {
    return InvalidArgument("Tried to push item into a full list list size: ", size,
                           " max_num_elements: ", list->max_elements);
  }
  ChangeList(c, std::move(list), [&](TensorList& l) { l.elements.push_back(value); });
  return absl::OkStatus();
}

absl::Status PushBackBatch(KernelContext& c) {
  const Tensor& lists = c.input(0);
  const Tensor& value = c.input(1);
  if (value.rank() == 0) {
    return InvalidArgument("Expected tensor to be at least a vector, but saw shape: ", value.shape());
  }
  if (!lists.shape().is_vector()) {
    return InvalidArgument("Expected input_handles to be a vector, but saw shape: ", lists.shape());
  }
  if (value.dim(0) != lists.dim(0)) {
    return InvalidArgument("Expected tensor.shape[0] == input_handles.size, but saw ", value.dim(0), " vs. ",
                           lists.dim(0));
  }
  Shape shape = value.shape();
  shape.RemoveDim(0);
  std::vector<std::shared_ptr<TensorList>> changed;
  for (int64_t i = 0; i < lists.dim(0); ++i) {
    ASSIGN_OR_RETURN(const ListPtr list, ListIn(lists.data<Variant>()[i]));
    if (!list->element_shape.Accepts(shape)) {
      return InvalidArgument("Tried to append a tensor with incompatible shape to a list at index ", i,
                             ". Op element shape: ", shape, " list shape: ", list->element_shape);
    }
    RETURN_IF_ERROR(CheckListType(*list, value.dtype()));
    // Both are copies: the row has memory of its own, so that the list does not keep the batch alive, and the lists of
    // a vector never change in place, as ChangeList() does with a single one.
    ASSIGN_OR_RETURN(Tensor row, CopyRow(value, i));
    changed.push_back(std::make_shared<TensorList>(*list));
    changed.back()->elements.push_back(std::move(row));
  }
  // All rows are checked before the output exists, so that an error leaves nothing half done.
  ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, lists.shape()));
  for (size_t i = 0; i < changed.size(); ++i) out->mutable_data<Variant>()[i] = Variant(std::move(changed[i]));
  return absl::OkStatus();
}

absl::Status Length(KernelContext& c) {
  ASSIGN_OR_RETURN(const ListPtr list, ListInput(c, 0));
  ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, Shape()));
  *out->mutable_data<int32_t>() = static_cast<int32_t>(list->elements.size());
  return absl::OkStatus();
}

absl::Status ElementShape(KernelContext& c) {
  ASSIGN_OR_RETURN(const ListPtr list, ListInput(c, 0));
  const PartialShape& shape = list->element_shape;
  // As in TensorFlow, the scalar -1 stands for a shape of unknown rank, and -1 in a vector for an unknown dimension.
  ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, shape.has_rank() ? Shape({shape.rank()}) : Shape()));
  return Dispatch(IndexTypes(), out->dtype(), [&]<typename T>() {
    if (!shape.has_rank()) *out->mutable_data<T>() = -1;
    for (int i = 0; i < shape.rank(); ++i) out->mutable_data<T>()[i] = static_cast<T>(shape.dim(i));
    return absl::OkStatus();
  });
}

absl::Status Resize(KernelContext& c) {
  ASSIGN_OR_RETURN(ListPtr list, ListInput(c, 0));
  ASSIGN_OR_RETURN(const int64_t size, IntegerInput(c, 1, "size"));
  if (size < 0) return InvalidArgument("TensorListSlice expects size to be non-negative. Got: ", size);
  if (size > TensorList::kMaxSize) return ResourceExhausted("a list of ", size, " tensors");
  ChangeList(c, std::move(list), [&](TensorList& l) { l.elements.resize(size); });
  return absl::OkStatus();
}

class SetItemKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(resize_, init.Attr<bool>("resize_if_index_out_of_bounds"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor value = c.input(2);
    ASSIGN_OR_RETURN(ListPtr list, ListInput(c, 0));
    RETURN_IF_ERROR(CheckListType(*list, value.dtype()));
    ASSIGN_OR_RETURN(const int64_t index, IntegerInput(c, 1, "index"));
    if (!list->element_shape.Accepts(value.shape())) {
      return InvalidArgument("Tried to set a tensor with incompatible shape at a list index. Item element shape: ",
                             value.shape(), " list shape: ", list->element_shape);
    }
    const auto size = static_cast<int64_t>(list->elements.size());
    if (index < 0 || (!resize_ && index >= size)) {
      return InvalidArgument("Trying to modify element ", index, " in a list with ", size, " elements.");
    }
    if (index >= TensorList::kMaxSize) return ResourceExhausted("element ", index, " of a list");
    ChangeList(c, std::move(list), [&](TensorList& l) {
      if (index >= size) l.elements.resize(index + 1);
      l.elements[index] = value;
    });
    return absl::OkStatus();
  }

 private:
  bool resize_ = false;
};

absl::Status GetItem(KernelContext& c) {
  ASSIGN_OR_RETURN(const ListPtr list, ListInput(c, 0));
  RETURN_IF_ERROR(CheckListType(*list, c.output_type(0)));
  ASSIGN_OR_RETURN(const int64_t index, IntegerInput(c, 1, "index"));
  if (index < 0 || index >= static_cast<int64_t>(list->elements.size())) {
    return InvalidArgument("Trying to access element ", index, " in a list with ", list->elements.size(), " elements.");
  }
  if (list->elements[index].has_value()) {
    c.set_output(0, list->elements[index]);
    return absl::OkStatus();
  }
  // The element was never set, so it is zeros. Its shape is what the list and the op's input say together or, if that
  // leaves dimensions open, the shape of the elements that are set.
  ASSIGN_OR_RETURN(PartialShape shape, KnownElementShape(c, *list, 2));
  if (!shape.fully_known()) RETURN_IF_ERROR(MergeElements(list->elements, &shape));
  if (!shape.fully_known()) {
    return InvalidArgument("Trying to read an uninitialized tensor but element_shape is not fully defined: ", shape,
                           " and no list element is set.");
  }
  ASSIGN_OR_RETURN(Tensor zeros, ZeroElement(list->dtype, *shape.AsShape()));
  c.set_output(0, std::move(zeros));
  return absl::OkStatus();
}

absl::Status PopBack(KernelContext& c) {
  ASSIGN_OR_RETURN(ListPtr list, ListInput(c, 0));
  RETURN_IF_ERROR(CheckListType(*list, c.output_type(1)));
  if (list->elements.empty()) return InvalidArgument("Trying to pop from an empty list.");
  Tensor last = list->elements.back();
  if (!last.has_value()) {
    ASSIGN_OR_RETURN(const PartialShape shape, KnownElementShape(c, *list, 1));
    if (!shape.fully_known()) {
      return InvalidArgument("Trying to read an uninitialized tensor but element_shape is not fully defined.", shape);
    }
    ASSIGN_OR_RETURN(last, ZeroElement(list->dtype, *shape.AsShape()));
  }
  ChangeList(c, std::move(list), [](TensorList& l) { l.elements.pop_back(); });
  c.set_output(1, std::move(last));
  return absl::OkStatus();
}

class ConcatListsKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(dtype_, init.Attr<DType>("element_dtype"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor &a = c.input(0), &b = c.input(1);
    if (!(a.shape() == b.shape())) {
      return InvalidArgument("Incompatible input TensorList tensor shapes: ", a.shape(), " vs. ", b.shape());
    }
    std::vector<std::shared_ptr<TensorList>> joined;
    for (int64_t i = 0; i < a.num_elements(); ++i) {
      ASSIGN_OR_RETURN(const ListPtr x, ListIn(a.data<Variant>()[i]));
      ASSIGN_OR_RETURN(const ListPtr y, ListIn(b.data<Variant>()[i]));
      if (x->dtype != dtype_ || y->dtype != dtype_) {
        return InvalidArgument("input_", x->dtype != dtype_ ? "a[" : "b[", i,
                               "].dtype != element_dtype.  Saw: ", x->dtype != dtype_ ? x->dtype : y->dtype, " vs. ",
                               dtype_);
      }
      if (!(x->element_shape == y->element_shape)) {
        return InvalidArgument("input_a and input_b TensorList element shapes are not identical at index ", i,
                               ".  Saw ", x->element_shape, " vs. ", y->element_shape);
      }
      joined.push_back(std::make_shared<TensorList>(*x));
      joined.back()->elements.insert(joined.back()->elements.end(), y->elements.begin(), y->elements.end());
    }
    ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, a.shape()));
    for (size_t i = 0; i < joined.size(); ++i) out->mutable_data<Variant>()[i] = Variant(std::move(joined[i]));
    return absl::OkStatus();
  }

 private:
  DType dtype_ = kInvalid;
};

// The gradient of a list is a list of the gradients of its elements.

absl::Status PushBackGradient(GradientContext& c) {
  const Scope& s = c.scope();
  const DType dtype = c.input(1).dtype();
  Node* const pop = s.Add("TensorListPopBack", {c.dy(), ShapeOf(s, c.input(1))}, {{"element_dtype", dtype}});
  if (pop == nullptr) return absl::OkStatus();
  c.set_dx(0, pop->out(0));
  c.set_dx(1, pop->out(1));
  return absl::OkStatus();
}

absl::Status PopBackGradient(GradientContext& c) {
  c.set_dx(0, Output(c.scope().Add("TensorListPushBack", {c.dy(0), c.dy(1)})));
  return absl::OkStatus();
}

// Only the element that was read gets a gradient. The others stay unset, which counts as zeros and costs no memory.
absl::Status GetItemGradient(GradientContext& c) {
  const Scope& s = c.scope();
  const DType dtype = c.output(0).dtype();
  const Output length = s.Add("TensorListLength", {c.input(0)});
  const Output none = s.Add("TensorListReserve", {ShapeOf(s, c.output(0)), length}, {{"element_dtype", dtype}});
  c.set_dx(0, Output(s.Add("TensorListSetItem", {none, c.input(1), c.dy()})));
  return absl::OkStatus();
}

// The item's gradient is the element of dy that replaced the old one. The old element had no effect, so its gradient is
// zero.
absl::Status SetItemGradient(GradientContext& c) {
  const Scope& s = c.scope();
  const Output item = c.input(2);
  c.set_dx(0, Output(s.Add("TensorListSetItem", {c.dy(), c.input(1), Output(s.Add("ZerosLike", {item}))})));
  c.set_dx(
      2, Output(s.Add("TensorListGetItem", {c.dy(), c.input(1), ShapeOf(s, item)}, {{"element_dtype", item.dtype()}})));
  return absl::OkStatus();
}

const OpRegistration kTensorListOps[] = {
    Op("EmptyTensorList")
        .Input("element_shape: shape_type")
        .Input("max_num_elements: int32")
        .Output("handle: variant")
        .Attr(kListType)
        .Attr(kListShapeType)
        .Shape(ListShape)
        .Kernel<EmptyKernel>()
        .NotDifferentiable(),
    Op("TensorListReserve")
        .Input("element_shape: shape_type")
        .Input("num_elements: int32")
        .Output("handle: variant")
        .Attr(kListType)
        .Attr(kListShapeType)
        .Shape(ListShape)
        .Kernel<ReserveKernel>()
        .NotDifferentiable(),
    Op("TensorListPushBack")
        .Input("input_handle: variant")
        .Input("tensor: element_dtype")
        .Output("output_handle: variant")
        .Attr(kListType)
        .Shape(ListShape)
        .Compute(PushBack)
        .Gradient(PushBackGradient),
    Op("TensorListPushBackBatch")
        .Input("input_handles: variant")
        .Input("tensor: element_dtype")
        .Output("output_handles: variant")
        .Attr(kListType)
        .Shape(shapes::LikeInput0)
        .Compute(PushBackBatch)
        .NotDifferentiable(),
    Op("TensorListPopBack")
        .Input("input_handle: variant")
        .Input("element_shape: int32")
        .Output("output_handle: variant")
        .Output("tensor: element_dtype")
        .Attr(kListType)
        .Shape(ListShape)
        .Compute(PopBack)
        .Gradient(PopBackGradient),
    Op("TensorListLength")
        .Input("input_handle: variant")
        .Output("length: int32")
        .Shape(shapes::Scalar)
        .Compute(Length)
        .NotDifferentiable(),
    Op("TensorListElementShape")
        .Input("input_handle: variant")
        .Output("element_shape: shape_type")
        .Attr(kListShapeType)
        .Shape(shapes::Unknown)
        .Compute(ElementShape)
        .NotDifferentiable(),
    Op("TensorListGetItem")
        .Input("input_handle: variant")
        .Input("index: int32")
        .Input("element_shape: int32")
        .Output("item: element_dtype")
        .Attr(kListType)
        .Shape(shapes::Unknown)
        .Compute(GetItem)
        .Gradient(GetItemGradient),
    Op("TensorListSetItem")
        .Input("input_handle: variant")
        .Input("index: int32")
        .Input("item: element_dtype")
        .Output("output_handle: variant")
        .Attr(kListType)
        .Attr("resize_if_index_out_of_bounds: bool = false")
        .Shape(ListShape)
        .Kernel<SetItemKernel>()
        .Gradient(SetItemGradient),
    Op("TensorListResize")
        .Input("input_handle: variant")
        .Input("size: int32")
        .Output("output_handle: variant")
        .Shape(ListShape)
        .Compute(Resize),
    Op("TensorListConcatLists")
        .Input("input_a: variant")
        .Input("input_b: variant")
        .Output("output: variant")
        .Attr(kListType)
        .Shape(shapes::LikeInput0)
        .Kernel<ConcatListsKernel>()
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
