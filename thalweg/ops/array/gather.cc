// SPDX-License-Identifier: Apache-2.0
// Gather and GatherV2 pick slices of `params` by number along an axis:
//
//   output[b, o, j, i] = params[b, o, indices[b, j], i]
//
// where b stands for the first batch_dims dimensions, o for those between them
// and the axis, and i for those after it. The gradient along the first
// dimension of a table is sparse: the rows of dy and where they belong.
#include <algorithm>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/element_string.h"
#include "thalweg/ops/support/input_value.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

struct Extents {
  int64_t batch = 1;
  int64_t outer = 1;
  int64_t size = 1;   // size of params along the axis
  int64_t count = 1;  // number of indices in each batch
  int64_t inner = 1;
};

// The first index that is not in [0, size); n if all are.
template <typename Index>
int64_t FirstBad(const Index* indices, int64_t n, int64_t size) {
  for (int64_t i = 0; i < n; ++i) {
    if (indices[i] < 0 || indices[i] >= size) return i;
  }
  return n;
}

absl::Status BadIndex(const Tensor& indices, int64_t at, int64_t size) {
  std::string place;
  int64_t rest = at;
  for (const int64_t stride : RowMajorStrides(indices.shape().dims())) {
    absl::StrAppend(&place, place.empty() ? "[" : ",", rest / stride);
    rest %= stride;
  }
  return InvalidArgument("indices", place.empty() ? "" : place + "]", " = ", ReadInteger(indices, at),
                         " is not in [0, ", size, ")");
}

// How far ahead rows are fetched into the cache, and how much of each.
constexpr int64_t kAhead = 8;
constexpr int64_t kFetchedBytes = 256;

template <typename T>
void Prefetch(const T* row, int64_t inner) {
  const char* const begin = reinterpret_cast<const char*>(row);
  const int64_t bytes = std::min<int64_t>(inner * sizeof(T), kFetchedBytes);
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(begin + at);
}

template <typename T, typename Index>
void CopyRows(const T* params, const Index* indices, int64_t n, int64_t inner, T* out) {
  if (inner == 1) {
    for (int64_t j = 0; j < n; ++j) out[j] = params[indices[j]];
    return;
  }
  for (int64_t j = 0; j < n; ++j) {
    if (j + kAhead < n) Prefetch(params + indices[j + kAhead] * inner, inner);
    CopyElements(params + indices[j] * inner, inner, out + j * inner);
  }
}

template <typename T, typename Index>
absl::Status GatherRows(KernelContext& c, const Tensor& params, const Tensor& indices, const Extents& x, Tensor* out) {
  const Index* const index = indices.data<Index>();
  const int64_t bad = FirstBad(index, indices.num_elements(), x.size);
  if (bad < indices.num_elements()) return BadIndex(indices, bad, x.size);
  if (out->num_elements() == 0) return absl::OkStatus();
  const T* const from = ElementData<T>(params);
  T* const to = MutableElementData<T>(out);
  const double row_nanos = x.inner == 1 ? 1 : 5 + static_cast<double>(x.inner * sizeof(T)) * 0.15;
  if (x.batch * x.outer == 1) {
    c.ParallelFor(x.count, row_nanos, [&](int64_t begin, int64_t end) {
      CopyRows(from, index + begin, end - begin, x.inner, to + begin * x.inner);
    });
  } else {
    c.ParallelFor(x.batch * x.outer, row_nanos * x.count, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        CopyRows(from + k * x.size * x.inner, index + k / x.outer * x.count, x.count, x.inner,
                 to + k * x.count * x.inner);
      }
    });
  }
  return absl::OkStatus();
}

absl::Status GatherAlong(KernelContext& c, const Tensor& params, int64_t given_axis, int64_t batch_dims) {
  const Tensor& indices = c.input(1);
  if (params.rank() < 1) return InvalidArgument("params must be at least 1 dimensional");
  if (given_axis < -params.rank() || given_axis >= params.rank()) {
    return InvalidArgument("Expected axis in the range [", -params.rank(), ", ", params.rank(), "), but got ",
                           given_axis);
  }
  const int axis = static_cast<int>(given_axis < 0 ? given_axis + params.rank() : given_axis);
  if (batch_dims < -indices.rank() || batch_dims > indices.rank()) {
    return InvalidArgument("Expected batch_dims in the range [", -indices.rank(), ", ", indices.rank(), "], but got ",
                           batch_dims);
  }
  const int batch = static_cast<int>(batch_dims < 0 ? batch_dims + indices.rank() : batch_dims);
  if (batch >= params.rank()) {
    return InvalidArgument("batch_dims (", batch, ") must be less than rank(params) (", params.rank(), ").");
  }
  if (batch > axis) return InvalidArgument("batch_dims (", batch, ") must be less than or equal to axis (", axis, ").");
  for (int d = 0; d < batch; ++d) {
    if (params.dim(d) == indices.dim(d)) continue;
    return InvalidArgument("params.shape[", d, "]: ", params.dim(d), " should be equal to indices.shape[", d,
                           "]: ", indices.dim(d));
  }
  Dims dims(params.shape().dims().begin(), params.shape().dims().begin() + axis);
  dims.insert(dims.end(), indices.shape().dims().begin() + batch, indices.shape().dims().end());
  dims.insert(dims.end(), params.shape().dims().begin() + axis + 1, params.shape().dims().end());
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  const Extents extents{.batch = params.shape().Product(0, batch),
                        .outer = params.shape().Product(batch, axis),
                        .size = params.dim(axis),
                        .count = indices.shape().Product(batch, indices.rank()),
                        .inner = params.shape().Product(axis + 1, params.rank())};
  return Dispatch(Types<int32_t, int64_t, int16_t>(), indices.dtype(), [&]<typename Index>() {
    return DispatchCopies(params.dtype(),
                          [&]<typename T>() { return GatherRows<T, Index>(c, params, indices, extents, out); });
  });
}

absl::Status ComputeGather(KernelContext& c) {
  return WithValue(c, 0, [&](const Tensor& params) { return GatherAlong(c, params, 0, 0); });
}

class GatherV2Kernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(batch_dims_, init.Attr<int64_t>("batch_dims"));
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    if (c.input(2).rank() != 0) return InvalidArgument("axis must be scalar, got shape ", c.input(2).shape());
    const int64_t axis = ReadInteger(c.input(2));
    return WithValue(c, 0, [&](const Tensor& params) { return GatherAlong(c, params, axis, batch_dims_); });
  }

 private:
  int64_t batch_dims_ = 0;
};

absl::Status GatherShape(ShapeContext& c) {
  if (c.input(0).has_rank() && c.input(0).rank() == 0) {
    return InvalidArgument("Shape must be at least rank 1 but is rank 0 for params");
  }
  if (c.input(0).has_rank()) c.set_output(0, Concatenate(c.input(1), SubShape(c.input(0), 1)));
  return absl::OkStatus();
}

absl::Status GatherV2Shape(ShapeContext& c) {
  const PartialShape &params = c.input(0), &indices = c.input(1);
  RETURN_IF_ERROR(c.RequireScalar(2));
  if (params.has_rank() && params.rank() == 0) {
    return InvalidArgument("Shape must be at least rank 1 but is rank 0 for params");
  }
  ASSIGN_OR_RETURN(int64_t batch, c.Attr<int64_t>("batch_dims"));
  if (!params.has_rank() || !indices.has_rank()) return absl::OkStatus();
  if (batch < -indices.rank() || batch > indices.rank()) {
    return InvalidArgument("Expected batch_dims in the range [", -indices.rank(), ", ", indices.rank(), "], but got ",
                           batch);
  }
  if (batch < 0) batch += indices.rank();
  const std::optional<Dims> given = ConstantIntegers(c, 2);
  if (!given.has_value()) {
    const int64_t rank = params.rank() + indices.rank() - 1 - batch;
    if (rank >= 0) c.set_output(0, PartialShape::OfRank(static_cast<int>(rank)));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis((*given)[0], params.rank()));
  if (batch > axis) return InvalidArgument("batch_dims (", batch, ") must be less than or equal to axis (", axis, ").");
  const PartialShape rows = Concatenate(SubShape(params, 0, axis), SubShape(indices, static_cast<int>(batch)));
  c.set_output(0, Concatenate(rows, SubShape(params, axis + 1)));
  return absl::OkStatus();
}

// Along the first dimension: the rows of dy, which may repeat, and their places.
absl::Status SparseGradient(GradientContext& c) {
  const Scope& s = c.scope();
  const PartialShape& static_shape = c.input(0).shape();
  Output shape, row_shape;
  if (const std::optional<Shape> known = static_shape.AsShape()) {
    std::vector<int32_t> dims(known->dims().begin(), known->dims().end());
    shape = Const(s, dims);
    dims[0] = -1;
    // -1 cannot be inferred for rows of no elements.
    if (known->Product(1, known->rank()) > 0) row_shape = Const(s, dims);
  } else {
    shape = ShapeOf(s, c.input(0));
  }
  if (!row_shape) {
    const Output row = StridedSlice(s, shape, Const(s, {1}), Const(s, {0}), Const(s, {1}), {.end_mask = 1});
    row_shape = Concat(s, {ExpandDims(s, Size(s, c.input(1)), 0), row}, 0);
  }
  c.set_dx(0, Gradient(Reshape(s, c.dy(), row_shape), Reshape(s, c.input(1), {-1}), shape));
  return absl::OkStatus();
}

// Along another one, params is seen as rows of the dimensions after the axis,
// and the number of the row that (b, o, j) was taken from is
// (b * outer + o) * size + indices[b, j].
absl::Status DenseGradient(GradientContext& c, int64_t batch_dims) {
  const Scope& s = c.scope();
  const Output params = c.input(0), indices = c.input(1);
  const Output shape = ShapeOf(s, params);
  Output axis = c.input(2);
  if (axis.dtype() != kInt32) axis = s.Add("Cast", {axis}, {{"DstT", kInt32}});
  axis = s.Add("FloorMod", {axis, Rank(s, params)});
  Output batch_rank = Const(s, static_cast<int32_t>(batch_dims));
  if (batch_dims < 0) batch_rank = s.Add("Add", {batch_rank, Rank(s, indices)});
  const Output one = Const(s, 1), zero = Const(s, 0);
  const auto product = [&](Output begin, Output end) {
    const Output dims = StridedSlice(s, shape, ExpandDims(s, begin, 0), ExpandDims(s, end, 0), Const(s, {1}));
    return Output(s.Add("Prod", {dims, zero}));
  };
  const Output after_axis = s.Add("Add", {axis, one});
  const Output batch = product(zero, batch_rank), outer = product(batch_rank, axis);
  const Output size = product(axis, after_axis), inner = product(after_axis, Rank(s, params));
  const Output blocks = s.Add("Mul", {batch, outer});
  Output first_row = s.Add("Mul", {Range(s, zero, blocks, one), size});
  first_row = Reshape(s, first_row, Pack(s, {batch, outer, one}));
  // No size is left to be inferred: it could not be, for an empty table.
  const Output count = s.Add("FloorDiv", {Size(s, indices), Output(s.Add("Maximum", {batch, one}))});
  Output flat = Reshape(s, indices, Pack(s, {batch, one, count}));
  if (indices.dtype() != kInt64) flat = s.Add("Cast", {flat}, {{"DstT", kInt64}});
  flat = s.Add("Add", {flat, Output(s.Add("Cast", {first_row}, {{"DstT", kInt64}}))});
  const Output rows = s.Add("Mul", {blocks, count});
  const Output values = Reshape(s, c.dy(), Pack(s, {rows, inner}));
  const Output sum = UnsortedSegmentSum(s, values, Reshape(s, flat, Pack(s, {rows})), s.Add("Mul", {blocks, size}));
  c.set_dx(0, Reshape(s, sum, shape));
  return absl::OkStatus();
}

absl::Status GatherV2Gradient(GradientContext& c) {
  ASSIGN_OR_RETURN(const int64_t batch_dims, c.Attr<int64_t>("batch_dims"));
  const std::optional<Dims> axis = ConstantIntegers(ShapeContext(*c.node()), 2);
  if (batch_dims == 0 && axis.has_value() && axis->size() == 1 && (*axis)[0] == 0) return SparseGradient(c);
  return DenseGradient(c, batch_dims);
}

const OpRegistration kGatherOps[] = {
    Op("Gather")
        .Input("params: Tparams")
        .Input("indices: Tindices")
        .Output("output: Tparams")
        .Attr("validate_indices: bool = true")
        .Attr("Tparams: type")
        .Attr("Tindices: {int32, int64}")
        .Shape(GatherShape)
        .Compute(ComputeGather)
        .Gradient(SparseGradient),
    Op("GatherV2")
        .Input("params: Tparams")
        .Input("indices: Tindices")
        .Input("axis: Taxis")
        .Output("output: Tparams")
        .Attr("batch_dims: int = 0")
        .Attr("Tparams: type")
        .Attr("Tindices: {int16, int32, int64}")
        .Attr("Taxis: {int32, int64}")
        .Shape(GatherV2Shape)
        .Kernel<GatherV2Kernel>()
        .Gradient(GatherV2Gradient),
};

}  // namespace

Output Gather(const Scope& s, Output params, Output indices, const GatherOptions& options) {
  return s.Add("GatherV2", {params, indices, Const(s.Argument("axis"), options.axis)},
               {{"batch_dims", options.batch_dims}});
}

}  // namespace thalweg
