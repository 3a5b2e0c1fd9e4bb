// SPDX-License-Identifier: Apache-2.0
// Lists whose elements are pieces of a tensor, of several rows each: Concat and
// ListSplit.
#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow/tensor_list.h"
#include "thalweg/ops/data_flow/tensor_list_kernel.h"
#include "thalweg/ops/support/shape_arguments.h"
#include "thalweg/ops/support/tuple_batch.h"

namespace thalweg {
namespace {

absl::Status ListSplit(KernelContext& c) {
  const Tensor& t = c.input(0);
  auto list = std::make_shared<TensorList>();
  list->dtype = t.dtype();
  ASSIGN_OR_RETURN(list->element_shape, ListShapeIn(c.input(1)));
  const PartialShape& shape = list->element_shape;
  if (shape.rank() == 0) {
    return InvalidArgument("TensorListSplit requires element_shape to be at least of rank 1, but saw: ", shape);
  }
  RETURN_IF_ERROR(CheckListRows(t));
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

class ListConcatKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    if (!HasAttr(init.node().def(), "element_shape")) return absl::OkStatus();
    ASSIGN_OR_RETURN(shape_, init.Attr<PartialShape>("element_shape"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    if (shape_.rank() == 0) return InvalidArgument("element_shape must not be empty");
    ASSIGN_OR_RETURN(const ListPtr list, ListInput(c, 0));
    RETURN_IF_ERROR(CheckListType(*list, c.output_type(0)));
    PartialShape shape = shape_;
    if (c.num_inputs() > 1) {
      ASSIGN_OR_RETURN(shape, KnownElementShape(c, *list, 1));
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
  // Merges the shapes of the elements: all dimensions but the first, and the first if it is equal in all.
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
      ASSIGN_OR_RETURN(*row, MergeElementShapes(*row, rest));
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
    PoolVector<Tensor> elements = list.elements;
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
        ASSIGN_OR_RETURN(elements[i], ZeroElement(list.dtype, shape));
      }
      lengths->mutable_data<int64_t>()[i] = length;
      if (__builtin_add_overflow(rows, length, &rows)) return InvalidArgument("too many rows to concat");
    }
    Dims dims(row.dims().begin(), row.dims().end());
    dims.insert(dims.begin(), rows);
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor * out, c.Allocate(0, shape));
    return n == 0 ? absl::OkStatus() : JoinTensors(c, elements, out);
  }

  PartialShape shape_;
};

absl::Status ListConcatGradient(GradientContext& c) {
  const Scope& s = c.scope();
  c.set_dx(0, Output(s.Add("TensorListSplit", {c.dy(0), Const(s, -1), c.output(1)})));
  return absl::OkStatus();
}

absl::Status ListSplitGradient(GradientContext& c) {
  const Scope& s = c.scope();
  const Output width = Slice(s, ShapeOf(s, c.input(0)), Const(s, {1}), Const(s, {-1}));
  const Output row = Concat(s, {Const(s, {-1}), width}, 0);
  c.set_dx(0, Output(s.Add("TensorListConcatV2", {c.dy(), row, c.input(2)}, {{"element_dtype", c.input(0).dtype()}})));
  return absl::OkStatus();
}

const OpRegistration kTensorListConcatOps[] = {
    Op("TensorListConcat")
        .Input("input_handle: variant")
        .Output("tensor: element_dtype")
        .Output("lengths: int64")
        .Attr(kListType)
        .Attr("element_shape: shape = { unknown_rank: true }")
        .Shape(shapes::Unknown)
        .Kernel<ListConcatKernel>()
        .Gradient(ListConcatGradient),
    Op("TensorListConcatV2")
        .Input("input_handle: variant")
        .Input("element_shape: shape_type")
        .Input("leading_dims: int64")
        .Output("tensor: element_dtype")
        .Output("lengths: int64")
        .Attr(kListType)
        .Attr(kListShapeType)
        .Shape(shapes::Unknown)
        .Kernel<ListConcatKernel>()
        .Gradient(ListConcatGradient),
    Op("TensorListSplit")
        .Input("tensor: element_dtype")
        .Input("element_shape: shape_type")
        .Input("lengths: int64")
        .Output("output_handle: variant")
        .Attr(kListType)
        .Attr(kListShapeType)
        .Shape(ListShape)
        .Compute(ListSplit)
        .Gradient(ListSplitGradient),
};

}  // namespace
}  // namespace thalweg
