// Lists of tensors, as values. Every op gives a new list; the old one stays as
// it was for who else has it.
#include <algorithm>

#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/element_moves.h"
#include "thalweg/ops/shape_arguments.h"
#include "thalweg/ops/tensor_list.h"
#include "thalweg/ops/tuple_batch.h"

namespace thalweg {
namespace {

using ListPtr = std::shared_ptr<const TensorList>;

// A shape with unknown sizes (-1), or -1: nothing is known.
absl::StatusOr<PartialShape> ShapeIn(const Tensor& t) {
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

absl::StatusOr<ListPtr> ListOf(KernelContext& c, int i) {
  if (!c.input(i).shape().is_scalar()) {
    return InvalidArgument("Input list must be a scalar saw: ", c.input(i).shape());
  }
  return ListIn(c.input(i).scalar<Variant>());
}

absl::Status CheckType(const TensorList& list, DType dtype) {
  if (list.dtype == dtype) return absl::OkStatus();
  return InvalidArgument("Invalid data types; op elements ", dtype, " but list elements ", list.dtype);
}

absl::StatusOr<int64_t> ScalarOf(KernelContext& c, int i, const char* what) {
  if (c.input(i).shape().is_scalar()) return c.input(i).scalar<int32_t>();
  return InvalidArgument(what, " must be a scalar, got ", c.input(i).shape());
}

// Makes the list of input 0 the output, for `change` to work on: itself if
// nobody else sees it, else a copy. What is read before must be checked before.
template <typename F>
void Change(KernelContext& c, ListPtr list, F&& change) {
  Tensor handle = c.TakeInput(0);
  const bool only_one = handle.unique() && handle.scalar<Variant>().As<TensorList>() == list.get() &&
                        list.use_count() == 2;  // the handle's and ours
  std::shared_ptr<TensorList> own;
  if (only_one) {
    own = std::const_pointer_cast<TensorList>(list);  // they are never made const
  } else {
    own = std::make_shared<TensorList>(*list);
    handle = TensorOf(own);
  }
  change(*own);
  c.set_output(0, std::move(handle));
}

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
    ASSIGN_OR_RETURN(list->element_shape, ShapeIn(c.input(0)));
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
    ASSIGN_OR_RETURN(list->element_shape, ShapeIn(c.input(0)));
    ASSIGN_OR_RETURN(const int64_t size, ScalarOf(c, 1, "The num_elements to reserve"));
    if (size < 0) {
      return InvalidArgument("The num_elements to reserve must be a non negative number, but got ", size);
    }
    if (size > TensorList::kMaxSize) return ResourceExhausted("a list of ", size, " tensors");
    list->elements.resize(size);
    c.set_output(0, TensorOf(std::move(list)));
    return absl::OkStatus();
  }

 private:
  DType dtype_ = kInvalid;
};

absl::Status PushBack(KernelContext& c) {
  const Tensor value = c.input(1);
  ASSIGN_OR_RETURN(ListPtr list, ListOf(c, 0));
  if (!list->element_shape.Accepts(value.shape())) {
    return InvalidArgument("Tried to append a tensor with incompatible shape to a list. Op element shape: ",
                           value.shape(), " list shape: ", list->element_shape);
  }
  RETURN_IF_ERROR(CheckType(*list, value.dtype()));
  const auto size = static_cast<int64_t>(list->elements.size());
  if (list->max_elements != -1 && size >= list->max_elements) {
    return InvalidArgument("Tried to push item into a full list list size: ", size,
                           " max_num_elements: ", list->max_elements);
  }
  Change(c, std::move(list), [&](TensorList& l) { l.elements.push_back(value); });
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
    RETURN_IF_ERROR(CheckType(*list, value.dtype()));
    changed.push_back(std::make_shared<TensorList>(*list));
    changed.back()->elements.push_back(RowOf(value, i, /*share=*/false));
  }
  ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, lists.shape()));
  for (size_t i = 0; i < changed.size(); ++i) out->mutable_data<Variant>()[i] = Variant(std::move(changed[i]));
  return absl::OkStatus();
}

absl::Status Length(KernelContext& c) {
  ASSIGN_OR_RETURN(const ListPtr list, ListOf(c, 0));
  ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, Shape()));
  *out->mutable_data<int32_t>() = static_cast<int32_t>(list->elements.size());
  return absl::OkStatus();
}

absl::Status ElementShape(KernelContext& c) {
  ASSIGN_OR_RETURN(const ListPtr list, ListOf(c, 0));
  const PartialShape& shape = list->element_shape;
  ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, shape.has_rank() ? Shape({shape.rank()}) : Shape()));
  return Dispatch(IndexTypes(), out->dtype(), [&]<typename T>() {
    if (!shape.has_rank()) *out->mutable_data<T>() = -1;
    for (int i = 0; i < shape.rank(); ++i) out->mutable_data<T>()[i] = static_cast<T>(shape.dim(i));
    return absl::OkStatus();
  });
}

absl::Status Resize(KernelContext& c) {
  ASSIGN_OR_RETURN(ListPtr list, ListOf(c, 0));
  ASSIGN_OR_RETURN(const int64_t size, ScalarOf(c, 1, "size"));
  if (size < 0) return InvalidArgument("TensorListSlice expects size to be non-negative. Got: ", size);
  if (size > TensorList::kMaxSize) return ResourceExhausted("a list of ", size, " tensors");
  Change(c, std::move(list), [&](TensorList& l) { l.elements.resize(size); });
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
    ASSIGN_OR_RETURN(ListPtr list, ListOf(c, 0));
    RETURN_IF_ERROR(CheckType(*list, value.dtype()));
    ASSIGN_OR_RETURN(const int64_t index, ScalarOf(c, 1, "index"));
    if (!list->element_shape.Accepts(value.shape())) {
      return InvalidArgument("Tried to set a tensor with incompatible shape at a list index. Item element shape: ",
                             value.shape(), " list shape: ", list->element_shape);
    }
    const auto size = static_cast<int64_t>(list->elements.size());
    if (index < 0 || (!resize_ && index >= size)) {
      return InvalidArgument("Trying to modify element ", index, " in a list with ", size, " elements.");
    }
    if (index >= TensorList::kMaxSize) return ResourceExhausted("element ", index, " of a list");
    Change(c, std::move(list), [&](TensorList& l) {
      if (index >= size) l.elements.resize(index + 1);
      l.elements[index] = value;
    });
    return absl::OkStatus();
  }

 private:
  bool resize_ = false;
};

// The shape of elements without value: what the list and input i know, and the
// other elements.
absl::StatusOr<PartialShape> MergeShapes(const PartialShape& a, const PartialShape& b) {
  absl::StatusOr<PartialShape> merged = PartialShape::Merge(a, b);
  if (merged.ok()) return merged;
  return InvalidArgument("PartialTensorShape: Incompatible shapes during merge: ", a, " vs. ", b);
}
absl::StatusOr<PartialShape> KnownShape(KernelContext& c, const TensorList& list, int i) {
  ASSIGN_OR_RETURN(const PartialShape given, ShapeIn(c.input(i)));
  return MergeShapes(given, list.element_shape);
}
absl::Status MergeElements(const std::vector<Tensor>& elements, PartialShape* shape) {
  for (const Tensor& t : elements) {
    if (t.has_value()) {
      ASSIGN_OR_RETURN(*shape, MergeShapes(*shape, t.shape()));
    }
  }
  return absl::OkStatus();
}
absl::StatusOr<Tensor> Zeros(DType dtype, const Shape& shape) {
  ASSIGN_OR_RETURN(Tensor zeros, Tensor::Allocate(dtype, shape));
  ClearElements(&zeros);
  return zeros;
}

absl::Status GetItem(KernelContext& c) {
  ASSIGN_OR_RETURN(const ListPtr list, ListOf(c, 0));
  RETURN_IF_ERROR(CheckType(*list, c.output_type(0)));
  ASSIGN_OR_RETURN(const int64_t index, ScalarOf(c, 1, "index"));
  if (index < 0 || index >= static_cast<int64_t>(list->elements.size())) {
    return InvalidArgument("Trying to access element ", index, " in a list with ", list->elements.size(), " elements.");
  }
  if (list->elements[index].has_value()) {
    c.set_output(0, list->elements[index]);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(PartialShape shape, KnownShape(c, *list, 2));
  if (!shape.fully_known()) RETURN_IF_ERROR(MergeElements(list->elements, &shape));
  if (!shape.fully_known()) {
    return InvalidArgument("Trying to read an uninitialized tensor but element_shape is not fully defined: ", shape,
                           " and no list element is set.");
  }
  ASSIGN_OR_RETURN(Tensor zeros, Zeros(list->dtype, *shape.AsShape()));
  c.set_output(0, std::move(zeros));
  return absl::OkStatus();
}

absl::Status PopBack(KernelContext& c) {
  ASSIGN_OR_RETURN(ListPtr list, ListOf(c, 0));
  RETURN_IF_ERROR(CheckType(*list, c.output_type(1)));
  if (list->elements.empty()) return InvalidArgument("Trying to pop from an empty list.");
  Tensor last = list->elements.back();
  if (!last.has_value()) {
    ASSIGN_OR_RETURN(const PartialShape shape, KnownShape(c, *list, 1));
    if (!shape.fully_known()) {
      return InvalidArgument("Trying to read an uninitialized tensor but element_shape is not fully defined.", shape);
    }
    ASSIGN_OR_RETURN(last, Zeros(list->dtype, *shape.AsShape()));
  }
  Change(c, std::move(list), [](TensorList& l) { l.elements.pop_back(); });
  c.set_output(1, std::move(last));
  return absl::OkStatus();
}

// Stacks tensors of one shape; zeros where there is no value.
absl::Status SetStacked(KernelContext& c, std::vector<Tensor> elements, DType dtype, const Shape& shape) {
  Dims dims(shape.dims().begin(), shape.dims().end());
  dims.insert(dims.begin(), static_cast<int64_t>(elements.size()));
  ASSIGN_OR_RETURN(const Shape whole, Shape::Make(dims));
  ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, whole));
  if (whole.num_elements() == 0) return absl::OkStatus();
  Tensor zeros;
  for (Tensor& element : elements) {
    if (element.has_value()) continue;
    if (!zeros.has_value()) {
      ASSIGN_OR_RETURN(zeros, Zeros(dtype, shape));
    }
    element = zeros;
  }
  return JoinTensors(c, elements, out);
}

class StackKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(num_elements_, init.Attr<int64_t>("num_elements"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const ListPtr list, ListOf(c, 0));
    RETURN_IF_ERROR(CheckType(*list, c.output_type(0)));
    const auto size = static_cast<int64_t>(list->elements.size());
    if (num_elements_ != -1 && num_elements_ != size) {
      return InvalidArgument("Operation expected a list with ", num_elements_, " elements but got a list with ", size,
                             " elements.");
    }
    ASSIGN_OR_RETURN(PartialShape shape, KnownShape(c, *list, 1));
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
  ASSIGN_OR_RETURN(const ListPtr list, ListOf(c, 0));
  RETURN_IF_ERROR(CheckType(*list, c.output_type(0)));
  const auto indices = c.input(1).flat<int32_t>();
  ASSIGN_OR_RETURN(PartialShape shape, KnownShape(c, *list, 2));
  if (!shape.fully_known() && indices.empty()) {
    return InvalidArgument("Tried to gather 0-elements from a list with non-fully-defined shape: ", shape);
  }
  std::vector<Tensor> elements;
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

absl::Status CheckRows(const Tensor& t) {
  if (t.rank() > 0) return absl::OkStatus();
  return InvalidArgument("Tensor must be at least a vector, but saw shape: ", t.shape());
}
absl::Status CheckRowShape(const PartialShape& element_shape, const Tensor& t) {
  Shape row = t.shape();
  row.RemoveDim(0);
  if (element_shape.Accepts(row)) return absl::OkStatus();
  return InvalidArgument("Specified a list with shape ", element_shape, " from a tensor with shape ", row);
}

absl::Status FromTensor(KernelContext& c) {
  const Tensor& t = c.input(0);
  RETURN_IF_ERROR(CheckRows(t));
  auto list = std::make_shared<TensorList>();
  list->dtype = t.dtype();
  ASSIGN_OR_RETURN(list->element_shape, ShapeIn(c.input(1)));
  RETURN_IF_ERROR(CheckRowShape(list->element_shape, t));
  list->elements.reserve(t.dim(0));
  for (int64_t i = 0; i < t.dim(0); ++i) list->elements.push_back(RowOf(t, i, /*share=*/true));
  c.set_output(0, TensorOf(std::move(list)));
  return absl::OkStatus();
}

absl::Status Scatter(KernelContext& c) {
  const Tensor& t = c.input(0);
  RETURN_IF_ERROR(CheckRows(t));
  const auto indices = c.input(1).flat<int32_t>();
  auto list = std::make_shared<TensorList>();
  list->dtype = t.dtype();
  ASSIGN_OR_RETURN(list->element_shape, ShapeIn(c.input(2)));
  int64_t size = -1;
  if (c.num_inputs() > 3) {
    ASSIGN_OR_RETURN(size, ScalarOf(c, 3, "num_elements"));
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
  for (size_t i = 0; i < indices.size(); ++i) list->elements[indices[i]] = RowOf(t, i, /*share=*/true);
  c.set_output(0, TensorOf(std::move(list)));
  return absl::OkStatus();
}

absl::Status ScatterIntoExisting(KernelContext& c) {
  ASSIGN_OR_RETURN(ListPtr list, ListOf(c, 0));
  const Tensor t = c.input(1);
  if (t.dtype() != list->dtype) {
    return InvalidArgument("Invalid data types; input tensor type: ", t.dtype(), " list element_type: ", list->dtype);
  }
  RETURN_IF_ERROR(CheckRows(t));
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
  Change(c, std::move(list), [&](TensorList& l) {
    if (highest >= static_cast<int64_t>(l.elements.size())) l.elements.resize(highest + 1);
    for (size_t i = 0; i < indices.size(); ++i) l.elements[indices[i]] = RowOf(t, i, /*share=*/true);
  });
  return absl::OkStatus();
}

absl::Status Split(KernelContext& c) {
  const Tensor& t = c.input(0);
  auto list = std::make_shared<TensorList>();
  list->dtype = t.dtype();
  ASSIGN_OR_RETURN(list->element_shape, ShapeIn(c.input(1)));
  const PartialShape& shape = list->element_shape;
  if (shape.rank() == 0) {
    return InvalidArgument("TensorListSplit requires element_shape to be at least of rank 1, but saw: ", shape);
  }
  RETURN_IF_ERROR(CheckRows(t));
  Dims any(t.shape().dims().begin(), t.shape().dims().end());
  any[0] = PartialShape::kUnknown;
  PartialShape rows = shape;
  if (shape.has_rank()) {
    Dims dims(shape.dims().begin(), shape.dims().end());
    dims[0] = PartialShape::kUnknown;
    rows = PartialShape(std::move(dims));
  }
  if (!PartialShape::Merge(rows, PartialShape(std::move(any))).ok()) {
    return InvalidArgument("tensor shape ", t.shape(), " is not compatible with element_shape ", shape);
  }
  const Tensor& lengths = c.input(2);
  if (!lengths.shape().is_vector()) {
    return InvalidArgument("Expected lengths to be a vector, received shape: ", lengths.shape());
  }
  int64_t start = 0;
  for (const int64_t length : lengths.flat<int64_t>()) {
    if (length < 0) return InvalidArgument("Invalid value in lengths: ", length);
    if (length > t.dim(0) - start) {
      return InvalidArgument("Attempting to slice [", start, ", ", start + length, "] from tensor with length ",
                             t.dim(0));
    }
    list->elements.push_back(t.Rows(start, start + length));
    start += length;
  }
  if (start != t.dim(0)) {
    return InvalidArgument("Unused values in tensor. Length of tensor: ", t.dim(0), " Values used: ", start);
  }
  c.set_output(0, TensorOf(std::move(list)));
  return absl::OkStatus();
}

class ConcatKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    if (!HasAttr(init.node().def(), "element_shape")) return absl::OkStatus();
    ASSIGN_OR_RETURN(shape_, init.Attr<PartialShape>("element_shape"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    ASSIGN_OR_RETURN(const ListPtr list, ListOf(c, 0));
    RETURN_IF_ERROR(CheckType(*list, c.output_type(0)));
    PartialShape shape = shape_;
    if (c.num_inputs() > 1) {
      ASSIGN_OR_RETURN(shape, KnownShape(c, *list, 1));
    }
    if (shape.rank() == 0) {
      return InvalidArgument("Concat requires elements to be at least vectors, found scalars instead.");
    }
    int64_t first = c.num_inputs() > 1 && shape.has_rank() ? shape.dim(0) : -1;
    PartialShape row = shape.has_rank() ? SubShape(shape, 1) : PartialShape();
    if (list->elements.empty() && !row.fully_known()) {
      return InvalidArgument(
          "All except the first dimension must be fully defined when concating an empty tensor list. element_shape: ",
          row);
    }
    RETURN_IF_ERROR(MergeRows(*list, &first, &row));
    if (!row.fully_known()) {
      return InvalidArgument(
          "Trying to concat list with only uninitialized tensors but element_shape_except_first_dim is not fully "
          "defined: ",
          row);
    }
    return Join(c, *list, first, *row.AsShape());
  }

 private:
  // What the elements have in common: all but the first size, and the first one
  // too if it is the same in all.
  static absl::Status MergeRows(const TensorList& list, int64_t* first, PartialShape* row) {
    int64_t common = *first;
    bool same = *first == -1;
    for (size_t i = 0; i < list.elements.size(); ++i) {
      const Tensor& t = list.elements[i];
      if (!t.has_value()) continue;
      if (t.rank() == 0) {
        return InvalidArgument("Concat saw a scalar shape at index ", i, " but requires at least vectors.");
      }
      Shape rest = t.shape();
      rest.RemoveDim(0);
      ASSIGN_OR_RETURN(*row, MergeShapes(*row, rest));
      if (*first != -1 && *first != t.dim(0)) {
        return InvalidArgument(
            "First entry of element_shape input does not match the first dim of list element at index: ", i,
            " Expected: ", *first, " Actual: ", t.dim(0));
      }
      if (!same) continue;
      if (common == -1) {
        common = t.dim(0);
      } else if (common != t.dim(0)) {
        common = -1;
        same = false;
      }
    }
    *first = common;
    return absl::OkStatus();
  }

  static absl::Status Join(KernelContext& c, const TensorList& list, int64_t first, const Shape& row) {
    const auto n = static_cast<int64_t>(list.elements.size());
    ASSIGN_OR_RETURN(Tensor * lengths, c.Allocate(1, Shape({n})));
    const int64_t given = c.num_inputs() > 2 ? c.input(2).num_elements() : 0;
    std::vector<Tensor> elements = list.elements;
    int64_t rows = 0;
    for (int64_t i = 0; i < n; ++i) {
      int64_t length = first;
      if (elements[i].has_value()) {
        length = elements[i].dim(0);
      } else {
        if (i < given) length = c.input(2).data<int64_t>()[i];
        if (length == -1 && c.num_inputs() > 2) {
          return InvalidArgument("List contains uninitialized tensor at index ", i, " but leading_dims has only ",
                                 given, " elements.");
        }
        if (length < 0) {
          return InvalidArgument(
              "Concating lists with uninitialized tensors is not supported in this version of "
              "TensorListConcat. Consider updating your GraphDef to run the newer version.");
        }
        Dims dims(row.dims().begin(), row.dims().end());
        dims.insert(dims.begin(), length);
        ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
        ASSIGN_OR_RETURN(elements[i], Zeros(list.dtype, shape));
      }
      lengths->mutable_data<int64_t>()[i] = length;
      rows += length;
    }
    Dims dims(row.dims().begin(), row.dims().end());
    dims.insert(dims.begin(), rows);
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, shape));
    return n == 0 ? absl::OkStatus() : JoinTensors(c, elements, out);
  }

  PartialShape shape_;
};

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

// Outputs 0 are lists, the others are not known.
absl::Status ListShape(ShapeContext& c) {
  c.set_output(0, PartialShape(Shape()));
  return absl::OkStatus();
}

constexpr char kType[] = "element_dtype: type";
constexpr char kShapeType[] = "shape_type: {int32, int64}";

const OpRegistration kOps[] = {
    Op("EmptyTensorList")
        .Input("element_shape: shape_type")
        .Input("max_num_elements: int32")
        .Output("handle: variant")
        .Attr(kType)
        .Attr(kShapeType)
        .Shape(ListShape)
        .Kernel<EmptyKernel>(),
    Op("TensorListReserve")
        .Input("element_shape: shape_type")
        .Input("num_elements: int32")
        .Output("handle: variant")
        .Attr(kType)
        .Attr(kShapeType)
        .Shape(ListShape)
        .Kernel<ReserveKernel>(),
    Op("TensorListPushBack")
        .Input("input_handle: variant")
        .Input("tensor: element_dtype")
        .Output("output_handle: variant")
        .Attr(kType)
        .Shape(ListShape)
        .Compute(PushBack),
    Op("TensorListPushBackBatch")
        .Input("input_handles: variant")
        .Input("tensor: element_dtype")
        .Output("output_handles: variant")
        .Attr(kType)
        .Shape(shapes::LikeInput0)
        .Compute(PushBackBatch)
        .NotDifferentiable(),
    Op("TensorListPopBack")
        .Input("input_handle: variant")
        .Input("element_shape: int32")
        .Output("output_handle: variant")
        .Output("tensor: element_dtype")
        .Attr(kType)
        .Shape(ListShape)
        .Compute(PopBack),
    Op("TensorListLength")
        .Input("input_handle: variant")
        .Output("length: int32")
        .Shape(shapes::Scalar)
        .Compute(Length)
        .NotDifferentiable(),
    Op("TensorListElementShape")
        .Input("input_handle: variant")
        .Output("element_shape: shape_type")
        .Attr(kShapeType)
        .Shape(shapes::Unknown)
        .Compute(ElementShape)
        .NotDifferentiable(),
    Op("TensorListStack")
        .Input("input_handle: variant")
        .Input("element_shape: int32")
        .Output("tensor: element_dtype")
        .Attr(kType)
        .Attr("num_elements: int = -1")
        .Shape(shapes::Unknown)
        .Kernel<StackKernel>(),
    Op("TensorListFromTensor")
        .Input("tensor: element_dtype")
        .Input("element_shape: shape_type")
        .Output("output_handle: variant")
        .Attr(kType)
        .Attr(kShapeType)
        .Shape(ListShape)
        .Compute(FromTensor),
    Op("TensorListGetItem")
        .Input("input_handle: variant")
        .Input("index: int32")
        .Input("element_shape: int32")
        .Output("item: element_dtype")
        .Attr(kType)
        .Shape(shapes::Unknown)
        .Compute(GetItem),
    Op("TensorListSetItem")
        .Input("input_handle: variant")
        .Input("index: int32")
        .Input("item: element_dtype")
        .Output("output_handle: variant")
        .Attr(kType)
        .Attr("resize_if_index_out_of_bounds: bool = false")
        .Shape(ListShape)
        .Kernel<SetItemKernel>(),
    Op("TensorListResize")
        .Input("input_handle: variant")
        .Input("size: int32")
        .Output("output_handle: variant")
        .Shape(ListShape)
        .Compute(Resize),
    Op("TensorListGather")
        .Input("input_handle: variant")
        .Input("indices: int32")
        .Input("element_shape: int32")
        .Output("values: element_dtype")
        .Attr(kType)
        .Shape(shapes::Unknown)
        .Compute(Gather),
    Op("TensorListScatter")
        .Input("tensor: element_dtype")
        .Input("indices: int32")
        .Input("element_shape: shape_type")
        .Output("output_handle: variant")
        .Attr(kType)
        .Attr(kShapeType)
        .Shape(ListShape)
        .Compute(Scatter),
    Op("TensorListScatterV2")
        .Input("tensor: element_dtype")
        .Input("indices: int32")
        .Input("element_shape: shape_type")
        .Input("num_elements: int32")
        .Output("output_handle: variant")
        .Attr(kType)
        .Attr(kShapeType)
        .Shape(ListShape)
        .Compute(Scatter),
    Op("TensorListScatterIntoExistingList")
        .Input("input_handle: variant")
        .Input("tensor: element_dtype")
        .Input("indices: int32")
        .Output("output_handle: variant")
        .Attr(kType)
        .Shape(ListShape)
        .Compute(ScatterIntoExisting),
    Op("TensorListConcat")
        .Input("input_handle: variant")
        .Output("tensor: element_dtype")
        .Output("lengths: int64")
        .Attr(kType)
        .Attr("element_shape: shape = { unknown_rank: true }")
        .Shape(shapes::Unknown)
        .Kernel<ConcatKernel>(),
    Op("TensorListConcatV2")
        .Input("input_handle: variant")
        .Input("element_shape: shape_type")
        .Input("leading_dims: int64")
        .Output("tensor: element_dtype")
        .Output("lengths: int64")
        .Attr(kType)
        .Attr(kShapeType)
        .Shape(shapes::Unknown)
        .Kernel<ConcatKernel>(),
    Op("TensorListSplit")
        .Input("tensor: element_dtype")
        .Input("element_shape: shape_type")
        .Input("lengths: int64")
        .Output("output_handle: variant")
        .Attr(kType)
        .Attr(kShapeType)
        .Shape(ListShape)
        .Compute(Split),
    Op("TensorListConcatLists")
        .Input("input_a: variant")
        .Input("input_b: variant")
        .Output("output: variant")
        .Attr(kType)
        .Shape(shapes::LikeInput0)
        .Kernel<ConcatListsKernel>()
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
