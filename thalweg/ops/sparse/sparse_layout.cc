// SPDX-License-Identifier: Apache-2.0
// Ops that move the elements of sparse tensors and compute nothing:
// SparseReorder (into row-major order), SparseReshape, SparseConcat,
// SparseSplit, SparseSlice and SparseFillEmptyRows, which gives every row of a
// matrix that has no element one in its first column.
#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/sparse/sparse.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/numbers.h"

namespace thalweg {
namespace {

using Places = std::vector<int64_t>;

// The elements in row-major order of their places.
Places SortedOrder(const SparseValue& x) {
  Places order(x.count());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return std::lexicographical_compare(x.row(a), x.row(a) + x.rank(), x.row(b), x.row(b) + x.rank());
  });
  return order;
}

absl::Status SparseReorder(KernelContext& context) {
  ASSIGN_OR_RETURN(const SparseValue x,
                   SparseValue::Make(context.input(0), context.input(1), context.input(2), SparseValue::kUnordered));
  const Places order = SortedOrder(x);
  Places places;
  for (const int64_t i : order) places.insert(places.end(), x.row(i), x.row(i) + x.rank());
  return SetSparseOutput(context, 0, places, x.values, order, x.dims);
}

// ---- SparseReshape ----

absl::StatusOr<int64_t> CheckedProduct(absl::Span<const int64_t> dims) {
  int64_t product = 1;
  for (const int64_t dim : dims) {
    if (__builtin_mul_overflow(product, dim, &product)) {
      return InvalidArgument("Input shape product overflows: ", PartialShape(Dims(dims.begin(), dims.end())));
    }
  }
  return product;
}

absl::Status SparseReshape(KernelContext& context) {
  const Tensor &indices = context.input(0), &old_shape = context.input(1), &new_shape = context.input(2);
  if (indices.rank() != 2)
    return InvalidArgument("Input indices should be a matrix but received shape ", indices.shape());
  if (old_shape.rank() != 1) {
    return InvalidArgument("Input shape should be a vector but received shape ", old_shape.shape());
  }
  if (new_shape.rank() != 1) {
    return InvalidArgument("Target shape should be a vector but received shape ", new_shape.shape());
  }
  if (indices.dim(1) != old_shape.num_elements()) {
    return InvalidArgument("Input tensor rank must match input shape length, got ", indices.dim(1), " and ",
                           old_shape.num_elements());
  }
  Dims from(old_shape.data<int64_t>(), old_shape.data<int64_t>() + old_shape.num_elements());
  Dims to(new_shape.data<int64_t>(), new_shape.data<int64_t>() + new_shape.num_elements());
  for (const int64_t dim : from) {
    if (dim < 0) return InvalidArgument("Input shape must be non-negative, got ", dim);
  }
  ASSIGN_OR_RETURN(const int64_t size, CheckedProduct(from));
  int64_t unknown = -1, known = 1;
  for (size_t d = 0; d < to.size(); ++d) {
    if (to[d] == -1) {
      if (unknown >= 0) return InvalidArgument("only one output dimension may be -1, not both ", unknown, " and ", d);
      unknown = static_cast<int64_t>(d);
    } else if (to[d] < 0) {
      return InvalidArgument("size ", d, " must be non-negative, not ", to[d]);
    } else if (__builtin_mul_overflow(known, to[d], &known)) {
      return InvalidArgument("Output shape product overflows");
    }
  }
  if (unknown >= 0) {
    if (known == 0) {
      return InvalidArgument(
          "reshape cannot infer the missing input size for an empty tensor unless all specified input sizes are "
          "non-zero");
    }
    to[unknown] = size / known;
    if (to[unknown] * known != size) {
      return InvalidArgument("Input to reshape is a SparseTensor with ", size,
                             " dense values, but the requested shape requires a multiple of ", known);
    }
    known *= to[unknown];
  }
  if (known != size) {
    return InvalidArgument("Input to reshape is a tensor with ", size, " dense values, but the requested shape has ",
                           known);
  }
  const int64_t count = indices.dim(0), from_rank = indices.dim(1), to_rank = static_cast<int64_t>(to.size());
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make({count, to_rank}));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
  ASSIGN_OR_RETURN(Tensor * out_shape, context.Allocate(1, Shape({to_rank})));
  std::copy(to.begin(), to.end(), out_shape->mutable_data<int64_t>());
  const int64_t* place = indices.data<int64_t>();
  int64_t* result = out->mutable_data<int64_t>();
  RETURN_IF_ERROR(CheckSparseIndices(indices.flat<int64_t>(), from, SparseValue::kUnordered));
  if (out->num_elements() == 0) return absl::OkStatus();  // places in a scalar may be many
  for (int64_t i = 0; i < count; ++i, place += from_rank, result += to_rank) {
    int64_t flat = 0;
    for (int64_t d = 0; d < from_rank; ++d) flat = flat * from[d] + place[d];
    for (int64_t d = to_rank - 1; d >= 0; --d) {
      result[d] = flat % to[d];
      flat /= to[d];
    }
  }
  return absl::OkStatus();
}

// ---- SparseConcat ----

class SparseConcatKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(axis_, init.Attr<int64_t>("concat_dim"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const int n = context.num_inputs() / 3;
    std::vector<SparseValue> parts;
    for (int i = 0; i < n; ++i) {
      ASSIGN_OR_RETURN(SparseValue part, SparseValue::Make(context.input(i), context.input(n + i),
                                                           context.input(2 * n + i), SparseValue::kUnordered));
      parts.push_back(std::move(part));
    }
    const int rank = parts[0].rank();
    const int64_t axis = axis_ < 0 ? axis_ + rank : axis_;
    if (axis < 0 || axis >= rank) {
      return InvalidArgument("Concat dimension must be in range [", -rank, ", ", rank, "), got ", axis_);
    }
    Dims dims = parts[0].dims;
    int64_t count = 0;
    for (int i = 0; i < n; ++i) {
      if (parts[i].rank() != rank) {
        return InvalidArgument("Ranks of all input tensors must match: expected ", rank, " but got ", parts[i].rank(),
                               " at position ", i);
      }
      for (int d = 0; d < rank; ++d) {
        if (d != axis && parts[i].dims[d] != dims[d]) {
          return InvalidArgument("Input shapes must match: expected ", dims[d], " for dimension ", d, " but got ",
                                 parts[i].dims[d], " at position ", i);
        }
      }
      count += parts[i].count();
      if (i > 0 && __builtin_add_overflow(dims[axis], parts[i].dims[axis], &dims[axis])) {
        return InvalidArgument("Concat dimension overflows");
      }
    }
    ASSIGN_OR_RETURN(Tensor all, Tensor::Allocate(kInt64, Shape({count, rank})));
    ASSIGN_OR_RETURN(Tensor values, Tensor::Allocate(context.output_type(1), Shape({count})));
    int64_t* to = all.mutable_data<int64_t>();
    int64_t offset = 0, first = 0;
    for (const SparseValue& part : parts) {
      for (int64_t i = 0; i < part.count(); ++i, to += rank) {
        std::copy_n(part.row(i), rank, to);
        to[axis] += offset;
      }
      RETURN_IF_ERROR(DispatchBySize(values.dtype(), [&]<typename T>() {
        CopyElements(ElementData<T>(part.values), part.count(), MutableElementData<T>(&values) + first);
        return absl::OkStatus();
      }));
      offset += part.dims[axis];
      first += part.count();
    }
    const SparseValue joined{all, values, dims};
    const Places order = SortedOrder(joined);
    Places places;
    for (const int64_t i : order) places.insert(places.end(), joined.row(i), joined.row(i) + rank);
    return SetSparseOutput(context, 0, places, values, order, dims);
  }

 private:
  int64_t axis_ = 0;
};

// ---- SparseSplit, SparseSlice ----

// Outputs the elements inside of a box.
absl::Status SetBox(KernelContext& context, const std::array<int, 3>& outputs, const SparseValue& x, const Dims& start,
                    const Dims& size) {
  Places places, from;
  for (int64_t i = 0; i < x.count(); ++i) {
    bool inside = true;
    for (int d = 0; d < x.rank() && inside; ++d) {
      inside = x.row(i)[d] >= start[d] &&
               static_cast<uint64_t>(WrapSub(x.row(i)[d], start[d])) < static_cast<uint64_t>(size[d]);
    }
    if (!inside) continue;
    from.push_back(i);
    for (int d = 0; d < x.rank(); ++d) places.push_back(x.row(i)[d] - start[d]);
  }
  const int64_t count = static_cast<int64_t>(from.size());
  ASSIGN_OR_RETURN(Tensor * indices, context.Allocate(outputs[0], Shape({count, x.rank()})));
  ASSIGN_OR_RETURN(Tensor * values, context.Allocate(outputs[1], Shape({count})));
  ASSIGN_OR_RETURN(Tensor * shape, context.Allocate(outputs[2], Shape({x.rank()})));
  std::copy(places.begin(), places.end(), indices->mutable_data<int64_t>());
  std::copy(size.begin(), size.end(), shape->mutable_data<int64_t>());
  return DispatchBySize(values->dtype(), [&]<typename T>() {
    for (int64_t i = 0; i < count; ++i) MutableElementData<T>(values)[i] = ElementData<T>(x.values)[from[i]];
    return absl::OkStatus();
  });
}

absl::Status SparseSplit(KernelContext& context) {
  const Tensor& split_dim = context.input(0);
  if (split_dim.num_elements() != 1) return InvalidArgument("axis should be a scalar, got shape ", split_dim.shape());
  ASSIGN_OR_RETURN(const SparseValue x,
                   SparseValue::Make(context.input(1), context.input(2), context.input(3), SparseValue::kUnordered));
  const int64_t rank = x.rank(), n = context.num_outputs() / 3;
  const int64_t given = split_dim.data<int64_t>()[0], axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis >= rank) {
    return InvalidArgument("Input axis should be in range [", -rank, ", ", rank, "), got ", given);
  }
  if (n < 1 || n > x.dims[axis]) {
    return InvalidArgument("Input num_split should be between 1 and the splitting dimension size (", x.dims[axis],
                           "), got ", n);
  }
  // The first few have one more where it does not divide.
  Dims start(rank, 0), size = x.dims;
  const int64_t each = x.dims[axis] / n, more = x.dims[axis] % n;
  for (int64_t i = 0; i < n; ++i) {
    size[axis] = each + (i < more ? 1 : 0);
    const int o = static_cast<int>(i), step = static_cast<int>(n);
    RETURN_IF_ERROR(SetBox(context, {o, step + o, 2 * step + o}, x, start, size));
    start[axis] += size[axis];
  }
  return absl::OkStatus();
}

absl::Status SparseSlice(KernelContext& context) {
  ASSIGN_OR_RETURN(const SparseValue x,
                   SparseValue::Make(context.input(0), context.input(1), context.input(2), SparseValue::kUnordered));
  const Tensor &starts = context.input(3), &sizes = context.input(4);
  for (const Tensor* t : {&starts, &sizes}) {
    const char* name = t == &starts ? "start" : "size";
    if (t->rank() != 1) return InvalidArgument("Input ", name, " should be a vector but received shape ", t->shape());
    if (t->num_elements() != x.rank()) {
      return InvalidArgument("Expected ", name, " to be a vector of length ", x.rank(), " but got length ",
                             t->num_elements());
    }
  }
  Dims start(starts.data<int64_t>(), starts.data<int64_t>() + x.rank());
  Dims size(sizes.data<int64_t>(), sizes.data<int64_t>() + x.rank());
  for (int d = 0; d < x.rank(); ++d) {
    // A slice may begin before the first element: there is nothing, but it counts.
    if (size[d] < 0) return InvalidArgument("expected size to be non-negative, got ", size[d], " for dimension ", d);
    if (start[d] >= x.dims[d] - size[d]) size[d] = std::max<int64_t>(0, x.dims[d] - start[d]);
  }
  return SetBox(context, {0, 1, 2}, x, start, size);
}

// The gradient of a slice: of the elements that are in it, zero for the others.
absl::Status SparseSliceGrad(KernelContext& context) {
  const Tensor &grad = context.input(0), &in = context.input(1), &start = context.input(2), &out = context.input(3);
  if (in.rank() != 2 || out.rank() != 2) {
    return InvalidArgument("Input and output indices should be matrices but received shapes: ", in.shape(), " and ",
                           out.shape());
  }
  if (grad.rank() != 1) {
    return InvalidArgument("Input backprop_val_grad should be a vector but received shape: ", grad.shape());
  }
  const int64_t rank = in.dim(1);
  if (out.dim(1) != rank) {
    return InvalidArgument("The input and output should have the same ndims, got: ", rank, " and ", out.dim(1));
  }
  if (out.dim(0) > in.dim(0))
    return InvalidArgument("# rows of output_indices should be not greater than of input_indices, got ", out.dim(0),
                           " and ", in.dim(0));
  if (grad.num_elements() != out.dim(0)) {
    return InvalidArgument(
        "# elements of backprop_val_grad and # rows of output_indices should match (#nnz of sum): got ",
        grad.num_elements(), " and ", out.dim(0));
  }
  if (start.rank() != 1 || start.num_elements() != rank) {
    return InvalidArgument("The input_start should be a vector of length ", rank, " but received shape ",
                           start.shape());
  }
  ASSIGN_OR_RETURN(Tensor * result, context.Allocate(0, Shape({in.dim(0)})));
  ClearElements(result);
  return DispatchBySize(grad.dtype(), [&]<typename T>() -> absl::Status {
    int64_t k = 0;
    for (int64_t i = 0; i < in.dim(0) && k < out.dim(0); ++i) {
      bool same = true;
      for (int64_t d = 0; d < rank && same; ++d) {
        same = in.data<int64_t>()[i * rank + d] == WrapAdd(out.data<int64_t>()[k * rank + d], start.data<int64_t>()[d]);
      }
      if (same) MutableElementData<T>(result)[i] = ElementData<T>(grad)[k++];
    }
    if (k != out.dim(0))
      return Internal("Elements of backprop_val_grad aren't all propagated. Num elements:", out.dim(0), ", used: ", k);
    return absl::OkStatus();
  });
}

// ---- SparseFillEmptyRows ----

absl::Status SparseFillEmptyRows(KernelContext& context) {
  const Tensor& fill = context.input(3);
  if (fill.rank() != 0) return InvalidArgument("default_value must be a scalar, saw: ", fill.shape());
  ASSIGN_OR_RETURN(const SparseValue x,
                   SparseValue::Make(context.input(0), context.input(1), context.input(2), SparseValue::kUnchecked));
  const int rank = x.rank();
  if (rank < 1) return InvalidArgument("Dense shape cannot be empty.");
  const int64_t rows = x.dims[0], count = x.count();
  if (rows == 0 && count != 0) {
    return InvalidArgument("Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = ", count);
  }
  ASSIGN_OR_RETURN(const Shape rows_shape, Shape::Make({rows}));
  ASSIGN_OR_RETURN(Tensor * empty, context.Allocate(2, rows_shape));
  ASSIGN_OR_RETURN(Tensor * reverse, context.Allocate(3, Shape({count})));
  std::fill_n(empty->mutable_data<bool>(), rows, true);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = x.row(i)[0];
    if (row < 0 || row >= rows) {
      return InvalidArgument("indices(", i, ", 0) is invalid: ", row, " >= ", rows);
    }
    empty->mutable_data<bool>()[row] = false;
  }
  // Where each row begins in the output; elements of a row keep their order.
  ASSIGN_OR_RETURN(const Shape begins_shape, Shape::Make({rows + 1}));
  ASSIGN_OR_RETURN(Tensor begins, context.AllocateTemporary(kInt64, begins_shape));
  ClearElements(&begins);
  int64_t* const begin = begins.mutable_data<int64_t>();
  for (int64_t i = 0; i < count; ++i) ++begin[x.row(i)[0] + 1];
  for (int64_t r = 0; r < rows; ++r) begin[r + 1] = begin[r] + std::max<int64_t>(1, begin[r + 1]);
  const int64_t total = begin[rows];
  ASSIGN_OR_RETURN(Tensor * indices, context.Allocate(0, Shape({total, rank})));
  ASSIGN_OR_RETURN(Tensor * values, context.Allocate(1, Shape({total})));
  std::fill_n(indices->mutable_data<int64_t>(), total * rank, int64_t{0});
  RETURN_IF_ERROR(FillElements(context, fill, values));
  for (int64_t r = 0; r < rows; ++r) {
    if (empty->data<bool>()[r]) indices->mutable_data<int64_t>()[begin[r] * rank] = r;
  }
  return DispatchBySize(values->dtype(), [&]<typename T>() {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t to = begin[x.row(i)[0]]++;
      std::copy_n(x.row(i), rank, indices->mutable_data<int64_t>() + to * rank);
      MutableElementData<T>(values)[to] = ElementData<T>(x.values)[i];
      reverse->mutable_data<int64_t>()[i] = to;
    }
    return absl::OkStatus();
  });
}

absl::Status SparseFillEmptyRowsGrad(KernelContext& context) {
  const Tensor &reverse = context.input(0), &grad = context.input(1);
  if (reverse.rank() != 1) return InvalidArgument("reverse_index_map must be a vector, saw: ", reverse.shape());
  if (grad.rank() != 1) return InvalidArgument("grad_values must be a vector, saw: ", grad.shape());
  const int64_t count = reverse.num_elements(), total = grad.num_elements();
  ASSIGN_OR_RETURN(Tensor * values, context.Allocate(0, Shape({count})));
  ASSIGN_OR_RETURN(Tensor * fill, context.Allocate(1, Shape()));
  return Dispatch(NumberTypes(), grad.dtype(), [&]<typename T>() -> absl::Status {
    std::vector<bool> used(total);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t from = reverse.data<int64_t>()[i];
      if (from < 0 || from >= total) {
        return InvalidArgument("Elements in reverse index must be in [0, ", total, ") but got ", from);
      }
      values->mutable_data<T>()[i] = grad.data<T>()[from];
      used[from] = true;
    }
    T sum(0);
    for (int64_t i = 0; i < total; ++i) {
      if (!used[i]) sum = SumOf(sum, grad.data<T>()[i]);
    }
    *fill->mutable_data<T>() = sum;
    return absl::OkStatus();
  });
}

// ---- Shapes ----

// Outputs i... are [?, rank], [?] and [rank].
absl::Status SparseShape(ShapeContext& c, int i, int step, int64_t rank) {
  c.set_output(i, PartialShape({-1, rank}));
  c.set_output(i + step, PartialShape::OfRank(1));
  if (i + 2 * step < c.num_outputs()) c.set_output(i + 2 * step, PartialShape({rank}));
  return absl::OkStatus();
}

int64_t RankOf(ShapeContext& c, int indices) {
  const PartialShape& shape = c.input(indices);
  return shape.has_rank() && shape.rank() == 2 ? shape.dim(1) : PartialShape::kUnknown;
}

absl::Status ReorderShape(ShapeContext& c) {
  c.set_output(0, c.input(0));
  c.set_output(1, c.input(1));
  return absl::OkStatus();
}
absl::Status ReshapeShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape indices, c.WithRank(0, 2));
  ASSIGN_OR_RETURN(const PartialShape shape, c.WithRank(2, 1));
  c.set_output(0, PartialShape({indices.dim(0), shape.dim(0)}));
  c.set_output(1, shape);
  return absl::OkStatus();
}
absl::Status BoxShape(ShapeContext& c) { return SparseShape(c, 0, 1, RankOf(c, 0)); }
absl::Status SplitShape(ShapeContext& c) {
  const int n = c.num_outputs() / 3;
  for (int i = 0; i < n; ++i) RETURN_IF_ERROR(SparseShape(c, i, n, RankOf(c, 1)));
  return absl::OkStatus();
}
absl::Status SliceGradShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape indices, c.WithRank(1, 2));
  c.set_output(0, PartialShape({indices.dim(0)}));
  return absl::OkStatus();
}
absl::Status FillShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.RequireScalar(3));
  c.set_output(0, PartialShape({-1, RankOf(c, 0)}));
  c.set_output(1, PartialShape::OfRank(1));
  ASSIGN_OR_RETURN(const PartialShape dense, c.ConstantAsShape(2));
  c.set_output(2, PartialShape({dense.has_rank() && dense.rank() > 0 ? dense.dim(0) : PartialShape::kUnknown}));
  c.set_output(3, c.input(1));
  return absl::OkStatus();
}
absl::Status FillGradShape(ShapeContext& c) {
  c.set_output(0, c.input(0));
  c.set_output(1, PartialShape({}));
  return absl::OkStatus();
}

const OpRegistration kSparseLayoutOps[] = {
    Op("SparseReorder")
        .Input("input_indices: int64")
        .Input("input_values: T")
        .Input("input_shape: int64")
        .Output("output_indices: int64")
        .Output("output_values: T")
        .Attr("T: type")
        .Shape(ReorderShape)
        .Compute(SparseReorder),
    Op("SparseReshape")
        .Input("input_indices: int64")
        .Input("input_shape: int64")
        .Input("new_shape: int64")
        .Output("output_indices: int64")
        .Output("output_shape: int64")
        .Shape(ReshapeShape)
        .Compute(SparseReshape),
    Op("SparseConcat")
        .Input("indices: N * int64")
        .Input("values: N * T")
        .Input("shapes: N * int64")
        .Output("output_indices: int64")
        .Output("output_values: T")
        .Output("output_shape: int64")
        .Attr("concat_dim: int")
        .Attr("N: int >= 2")
        .Attr("T: type")
        .Shape(BoxShape)
        .Kernel<SparseConcatKernel>()
        .NotDifferentiable(),
    Op("SparseSplit")
        .Input("split_dim: int64")
        .Input("indices: int64")
        .Input("values: T")
        .Input("shape: int64")
        .Output("output_indices: num_split * int64")
        .Output("output_values: num_split * T")
        .Output("output_shape: num_split * int64")
        .Attr("num_split: int >= 1")
        .Attr("T: type")
        .Shape(SplitShape)
        .Compute(SparseSplit),
    Op("SparseSlice")
        .Input("indices: int64")
        .Input("values: T")
        .Input("shape: int64")
        .Input("start: int64")
        .Input("size: int64")
        .Output("output_indices: int64")
        .Output("output_values: T")
        .Output("output_shape: int64")
        .Attr("T: type")
        .Shape(BoxShape)
        .Compute(SparseSlice),
    Op("SparseSliceGrad")
        .Input("backprop_val_grad: T")
        .Input("input_indices: int64")
        .Input("input_start: int64")
        .Input("output_indices: int64")
        .Output("val_grad: T")
        .Attr("T: numbertype")
        .Shape(SliceGradShape)
        .Compute(SparseSliceGrad),
    Op("SparseFillEmptyRows")
        .Input("indices: int64")
        .Input("values: T")
        .Input("dense_shape: int64")
        .Input("default_value: T")
        .Output("output_indices: int64")
        .Output("output_values: T")
        .Output("empty_row_indicator: bool")
        .Output("reverse_index_map: int64")
        .Attr("T: type")
        .Shape(FillShape)
        .Compute(SparseFillEmptyRows),
    Op("SparseFillEmptyRowsGrad")
        .Input("reverse_index_map: int64")
        .Input("grad_values: T")
        .Output("d_values: T")
        .Output("d_default_value: T")
        .Attr("T: type")
        .Shape(FillGradShape)
        .Compute(SparseFillEmptyRowsGrad),
    Op("RaggedFillEmptyRowsGrad")
        .Input("reverse_index_map: int64")
        .Input("grad_values: T")
        .Output("d_values: T")
        .Output("d_default_value: T")
        .Attr("T: type")
        .Shape(FillGradShape)
        .Compute(SparseFillEmptyRowsGrad),
};

}  // namespace
}  // namespace thalweg
