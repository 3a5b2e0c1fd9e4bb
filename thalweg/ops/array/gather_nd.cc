// SPDX-License-Identifier: Apache-2.0
// Gathering and scattering by index vectors. The last dimension of `indices`
// holds vectors that each name a slice of a tensor:
//
//   GatherNd:  output[i...] = params[indices[i...]]
//   ScatterNd: zeros of a shape, with updates[i...] added at indices[i...]
//   TensorScatter{Update,Add,Sub,Max,Min}: the same into a given tensor
#include "thalweg/ops/array/gather_nd.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/element_string.h"
#include "thalweg/ops/support/input_value.h"
#include "thalweg/ops/support/segment_rows.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

using RowNumbers = SliceNumbers;

// For each index vector, the number of the slice it names in a tensor of
// `shape`. `what` is how the message calls the tensor.
template <typename Index>
absl::StatusOr<RowNumbers> FindRows(const Tensor& indices, const Shape& shape, absl::string_view what) {
  const int depth = static_cast<int>(indices.dim(indices.rank() - 1));
  const int64_t n = depth == 0 ? indices.shape().Product(0, indices.rank() - 1) : indices.num_elements() / depth;
  const Index* at = indices.data<Index>();
  RowNumbers rows(n);
  for (int64_t i = 0; i < n; ++i, at += depth) {
    int64_t row = 0;
    bool inside = true;
    for (int d = 0; d < depth; ++d) {
      inside = inside && at[d] >= 0 && static_cast<int64_t>(at[d]) < shape.dim(d);
      row = row * shape.dim(d) + static_cast<int64_t>(at[d]);
      if (!inside) break;
    }
    if (!inside) {
      std::string place;
      int64_t rest = i;
      for (const int64_t stride : RowMajorStrides(indices.shape().dims().subspan(0, indices.rank() - 1))) {
        absl::StrAppend(&place, place.empty() ? "" : ",", rest / stride);
        rest %= stride;
      }
      return InvalidArgument("indices[", place, "] = [", absl::StrJoin(at, at + depth, ", "), "] does not index into ",
                             what, "shape ", shape);
    }
    rows[i] = row;
  }
  return rows;
}

absl::StatusOr<RowNumbers> FindRows(const Tensor& indices, const Shape& shape, absl::string_view what) {
  switch (indices.dtype()) {
    case kInt32:
      return FindRows<int32_t>(indices, shape, what);
    case kInt64:
      return FindRows<int64_t>(indices, shape, what);
    case kInt16:
      return FindRows<int16_t>(indices, shape, what);
    case kUint16:
      return FindRows<uint16_t>(indices, shape, what);
    default:
      return Unimplemented("no kernel for indices of type ", indices.dtype());
  }
}

}  // namespace

// GatherNd

absl::Status GatherSlices(KernelContext& c, const Tensor& params, const Tensor& indices) {
  if (params.rank() < 1) return InvalidArgument("params must be at least a vector");
  if (indices.rank() < 1) return InvalidArgument("indices must be at least a vector");
  const int depth = static_cast<int>(std::min<int64_t>(indices.dim(indices.rank() - 1), Shape::kMaxRank + 1));
  if (depth > params.rank()) {
    return InvalidArgument("index innermost dimension length must be <= params rank; saw: ", depth, " vs. ",
                           params.rank());
  }
  Dims dims(indices.shape().dims().begin(), indices.shape().dims().end() - 1);
  dims.insert(dims.end(), params.shape().dims().begin() + depth, params.shape().dims().end());
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  const int64_t count = indices.shape().Product(0, indices.rank() - 1);
  if (params.num_elements() == 0 && count > 0 && params.shape().Product(0, depth) == 0) {
    return InvalidArgument("Requested more than 0 entries, but params is empty.  Params shape: ", params.shape());
  }
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  // Before anything is kept for each: empty index vectors may be more than there is memory for.
  if (indices.num_elements() == 0 && shape.num_elements() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const RowNumbers rows, FindRows(indices, params.shape(), "param "));
  const int64_t inner = params.shape().Product(depth, params.rank());
  return DispatchCopies(params.dtype(), [&]<typename T>() {
    const T* const from = ElementData<T>(params);
    T* const to = MutableElementData<T>(out);
    c.ParallelFor(count, 5 + inner * sizeof(T) * 0.15, [&](int64_t begin, int64_t end) {
      constexpr int64_t kAhead = 8;
      for (int64_t i = begin; i < end; ++i) {
        if (i + kAhead < end) __builtin_prefetch(from + rows[i + kAhead] * inner);
        CopyElements(from + rows[i] * inner, inner, to + i * inner);
      }
    });
    return absl::OkStatus();
  });
}

namespace {

absl::Status ComputeGatherNd(KernelContext& c) {
  return WithValue(c, 0, [&](const Tensor& params) { return GatherSlices(c, params, c.input(1)); });
}

absl::Status GatherNdShape(ShapeContext& c) {
  const PartialShape &params = c.input(0), &indices = c.input(1);
  if (!params.has_rank() || !indices.has_rank()) return absl::OkStatus();
  if (indices.rank() < 1) return InvalidArgument("indices must be at least a vector");
  const int64_t depth = indices.dim(indices.rank() - 1);
  if (depth < 0) return absl::OkStatus();
  if (depth > params.rank()) {
    return InvalidArgument("indices.shape[-1] must be <= params.rank, but saw indices shape: ", indices,
                           " and params shape: ", params);
  }
  c.set_output(0, Concatenate(SubShape(indices, 0, indices.rank() - 1), SubShape(params, static_cast<int>(depth))));
  return absl::OkStatus();
}

absl::Status GatherNdGradient(GradientContext& c) {
  const Scope& s = c.scope();
  const Output params = c.input(0), indices = c.input(1);
  const PartialShape& shape = indices.shape();
  // Rows by number: as of Gather.
  if (shape.has_rank() && shape.rank() == 2 && shape.dim(1) == 1) {
    c.set_dx(0, Gradient(c.dy(), Squeeze(s, indices, {-1}), ShapeOf(s, params)));
    return absl::OkStatus();
  }
  c.set_dx(0, ScatterNd(s, indices, c.dy(), ShapeOf(s, params, indices.dtype())));
  return absl::OkStatus();
}

// ScatterNd and TensorScatter

}  // namespace

absl::Status CheckScatterNd(const Tensor& indices, const Tensor& updates, const Shape& shape) {
  if (shape.rank() < 1) return InvalidArgument("Output must be at least 1-D, got shape: ", shape);
  if (indices.rank() < 1 || updates.rank() < 1) {
    return InvalidArgument("Indices shape must have rank at least one. Found:", indices.shape());
  }
  const int64_t depth = indices.dim(indices.rank() - 1);
  const int outer = indices.rank() - 1;
  const absl::Span<const int64_t> dims = updates.shape().dims();
  if (updates.rank() < outer || dims.subspan(0, outer) != indices.shape().dims().subspan(0, outer)) {
    return InvalidArgument("Dimensions [0,", outer, ") of indices[shape=", indices.shape(),
                           "] must match dimensions [0,", outer, ") of updates[shape=", updates.shape(), "]");
  }
  if (depth <= shape.rank()) {
    if (dims.subspan(outer) == shape.dims().subspan(depth)) return absl::OkStatus();
    return InvalidArgument("Dimensions [", depth, ",", shape.rank(), ") of input[shape=", shape,
                           "] must match dimensions [", outer, ",", updates.rank(),
                           ") of updates[shape=", updates.shape(), "]");
  }
  return InvalidArgument(
      "Must have updates.shape = indices.shape[:batch_dim] + params_shape[slice_dim:], got updates.shape: ",
      updates.shape(), ", indices.shape: ", indices.shape(), ", params_shape: ", shape);
}

absl::StatusOr<SliceNumbers> FindScatterSlices(const Tensor& indices, const Shape& shape) {
  // Empty index vectors may be more than there is memory for. All name the whole.
  if (indices.num_elements() == 0) return SliceNumbers(indices.shape().Product(0, indices.rank() - 1) > 0 ? 1 : 0, 0);
  return FindRows(indices, shape, "");
}

absl::Status ScatterSlices(ScatterKind scatter, const Tensor& indices, const Tensor& updates, Tensor* out) {
  if (updates.num_elements() == 0) return absl::OkStatus();
  const Shape& shape = out->shape();
  ASSIGN_OR_RETURN(const RowNumbers rows, FindRows(indices, shape, ""));
  const int64_t inner = shape.Product(static_cast<int>(indices.dim(indices.rank() - 1)), shape.rank());
  const DType dtype = out->dtype();
  const int64_t n = static_cast<int64_t>(rows.size());
  if (scatter == ScatterKind::kUpdate) {
    return DispatchBySize(dtype, [&]<typename T>() {
      for (int64_t i = 0; i < n; ++i) {
        CopyElements(ElementData<T>(updates) + i * inner, inner, MutableElementData<T>(out) + rows[i] * inner);
      }
      return absl::OkStatus();
    });
  }
  if (scatter == ScatterKind::kAdd && (dtype == kBool || dtype == kString)) {
    for (int64_t i = 0; i < n * inner; ++i) {
      const int64_t at = rows[i / inner] * inner + i % inner;
      if (dtype == kBool) {
        out->mutable_data<bool>()[at] |= updates.data<bool>()[i];
      } else {
        std::string& text = out->mutable_data<std::string>()[at];
        const std::string& more = updates.data<std::string>()[i];
        ReserveStringMemory(text.size() + more.size());
        text += more;
      }
    }
    return absl::OkStatus();
  }
  if (scatter == ScatterKind::kSub) {
    return Dispatch(NumberTypes(), dtype, [&]<typename T>() {
      for (int64_t i = 0; i < n; ++i) {
        const T* const from = updates.data<T>() + i * inner;
        T* const to = out->mutable_data<T>() + rows[i] * inner;
        for (int64_t k = 0; k < inner; ++k) to[k] = static_cast<T>(to[k] - from[k]);
      }
      return absl::OkStatus();
    });
  }
  const SegmentReduction reduction = scatter == ScatterKind::kAdd   ? SegmentReduction::kSum
                                     : scatter == ScatterKind::kMax ? SegmentReduction::kMax
                                                                    : SegmentReduction::kMin;
  ASSIGN_OR_RETURN(const CombineRow combine, FindCombineRow(reduction, dtype));
  const int64_t bytes = inner * static_cast<int64_t>(ElementSize(dtype));
  for (int64_t i = 0; i < n; ++i) {
    combine(static_cast<const char*>(updates.raw()) + i * bytes, static_cast<char*>(out->raw()) + rows[i] * bytes,
            inner);
  }
  return absl::OkStatus();
}

namespace {

absl::Status ComputeScatterNd(KernelContext& c) {
  const Tensor& indices = c.input(0);
  const Tensor& updates = c.input(1);
  if (c.input(2).rank() != 1) return InvalidArgument("Shape must be a vector");
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make(ReadIntegers(c.input(2))));
  if (indices.rank() < 1) return InvalidArgument("Indices shape must have rank at least one. Found:", indices.shape());
  if (updates.rank() < 1) return InvalidArgument("Updates shape must have rank at least one. Found:", updates.shape());
  if (shape.num_elements() == 0 && (indices.num_elements() > 0 || updates.num_elements() > 0)) {
    return InvalidArgument("Indices and updates specified for empty output.  indices shape: ", indices.shape());
  }
  RETURN_IF_ERROR(CheckScatterNd(indices, updates, shape));
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
  ClearElements(out);
  return ScatterSlices(ScatterKind::kAdd, indices, updates, out);
}

absl::Status ScatterNdShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, c.ConstantAsShape(2));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status ScatterNdGradient(GradientContext& c) {
  c.set_dx(1, GatherNd(c.scope(), c.dy(), c.input(0)));
  return absl::OkStatus();
}

class TensorScatterKernel : public Kernel {
 public:
  explicit TensorScatterKernel(ScatterKind scatter) : scatter_(scatter) {}

  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    const Shape shape = input.shape();
    RETURN_IF_ERROR(CheckScatterNd(c.input(1), c.input(2), shape));
    if (shape.num_elements() == 0 && c.input(2).num_elements() > 0) {
      return InvalidArgument("Indices and updates specified for empty output");
    }
    // Bad indices are found on the way, when some updates are done already.
    RETURN_IF_ERROR(FindScatterSlices(c.input(1), shape).status());
    ASSIGN_OR_RETURN(Tensor* const out, c.ForwardOrAllocate({0}, 0, shape));
    if (out->raw() != input.raw()) {
      const Dims all = RowMajorStrides(shape.dims());
      RETURN_IF_ERROR(CopyStrided(c, shape.dims(), input, {.strides = all}, out, {.strides = all}));
    }
    return ScatterSlices(scatter_, c.input(1), c.input(2), out);
  }

 private:
  const ScatterKind scatter_;
};

absl::Status UpdateGradient(GradientContext& c) {
  const Scope& s = c.scope();
  const Output dy = c.dy();
  c.set_dx(0, Output(s.Add("TensorScatterUpdate", {dy, c.input(1), ZerosLike(s, c.input(2))})));
  c.set_dx(2, GatherNd(s, dy, c.input(1)));
  return absl::OkStatus();
}

absl::Status AddGradient(GradientContext& c) {
  c.set_dx(0, c.raw_dy(0));
  c.set_dx(2, GatherNd(c.scope(), c.dy(), c.input(1)));
  return absl::OkStatus();
}

absl::Status SubGradient(GradientContext& c) {
  c.set_dx(0, c.raw_dy(0));
  c.set_dx(2, Output(c.scope().Add("Neg", {GatherNd(c.scope(), c.dy(), c.input(1))})));
  return absl::OkStatus();
}

// All elements that equal the result share its gradient.
absl::Status ExtremeGradient(GradientContext& c) {
  const Scope& s = c.scope();
  const Output x = c.input(0), indices = c.input(1), updates = c.input(2), y = c.output(0);
  const auto equals = [&](Output a, Output b) {
    const Output flags = s.Add("Equal", {a, b});
    return Output(s.Add("Cast", {flags}, {{"DstT", x.dtype()}}));
  };
  const Output x_share = equals(x, y), update_share = equals(updates, GatherNd(s, y, indices));
  const Output scattered = ScatterNd(s, indices, update_share, ShapeOf(s, x, indices.dtype()));
  const Output total = s.Add("Add", {x_share, scattered});
  const Output each = s.Add("RealDiv", {c.dy(), total});
  c.set_dx(0, Output(s.Add("Mul", {each, x_share})));
  c.set_dx(2, Output(s.Add("Mul", {GatherNd(s, each, indices), update_share})));
  return absl::OkStatus();
}

Op TensorScatter(absl::string_view name, absl::string_view index_types, ScatterKind scatter, GradientFn gradient) {
  return Op(name)
      .Input("tensor: T")
      .Input("indices: Tindices")
      .Input("updates: T")
      .Output("output: T")
      .Attr("T: type")
      .Attr(absl::StrCat("Tindices: ", index_types))
      .Shape(shapes::LikeInput0)
      .Kernel<TensorScatterKernel>(scatter)
      .Gradient(gradient);
}

const OpRegistration kGatherNdOps[] = {
    Op("GatherNd")
        .Input("params: Tparams")
        .Input("indices: Tindices")
        .Output("output: Tparams")
        .Attr("Tparams: type")
        .Attr("Tindices: {int16, int32, int64}")
        .Shape(GatherNdShape)
        .Compute(ComputeGatherNd)
        .Gradient(GatherNdGradient),
    Op("ScatterNd")
        .Input("indices: Tindices")
        .Input("updates: T")
        .Input("shape: Tindices")
        .Output("output: T")
        .Attr("T: type")
        .Attr("Tindices: {int16, int32, int64}")
        .Shape(ScatterNdShape)
        .Compute(ComputeScatterNd)
        .Gradient(ScatterNdGradient),
    Op("ScatterNdNonAliasingAdd")
        .Input("input: T")
        .Input("indices: Tindices")
        .Input("updates: T")
        .Output("output: T")
        .Attr("T: {numbertype, bool}")
        .Attr("Tindices: {int32, int64}")
        .Shape(shapes::LikeInput0)
        .Kernel<TensorScatterKernel>(ScatterKind::kAdd)
        .Gradient(AddGradient),
    TensorScatter("TensorScatterUpdate", "{int16, int32, int64, uint16}", ScatterKind::kUpdate, UpdateGradient),
    TensorScatter("TensorScatterAdd", "{int32, int64}", ScatterKind::kAdd, AddGradient),
    TensorScatter("TensorScatterSub", "{int32, int64}", ScatterKind::kSub, SubGradient),
    TensorScatter("TensorScatterMax", "{int32, int64}", ScatterKind::kMax, ExtremeGradient),
    TensorScatter("TensorScatterMin", "{int32, int64}", ScatterKind::kMin, ExtremeGradient),
};

}  // namespace

Output GatherNd(const Scope& s, Output params, Output indices) { return s.Add("GatherNd", {params, indices}); }
Output ScatterNd(const Scope& s, Output indices, Output updates, const IntsArg& shape) {
  return s.Add("ScatterNd", {indices, updates, shape.AsTensor(s, "shape", indices.dtype())});
}
Output TensorScatterUpdate(const Scope& s, Output tensor, Output indices, Output updates) {
  return s.Add("TensorScatterUpdate", {tensor, indices, updates});
}
Output TensorScatterAdd(const Scope& s, Output tensor, Output indices, Output updates) {
  return s.Add("TensorScatterAdd", {tensor, indices, updates});
}

}  // namespace thalweg
