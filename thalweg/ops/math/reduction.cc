// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/math/reduction.h"

#include <numeric>
#include <optional>
#include <vector>

#include "thalweg/base/status.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"

namespace thalweg {
namespace {

// Elements that a thread takes at a time. Fixed, so that how a sum is cut does
// not depend on how many threads there are.
constexpr int64_t kPiece = 1 << 16;

// Marks the axes in `goes`.
absl::Status MarkAxes(const Tensor& axes, absl::Span<bool> goes) {
  const int64_t rank = static_cast<int64_t>(goes.size());
  return Dispatch(IndexTypes(), axes.dtype(), [&]<typename T>() -> absl::Status {
    for (const T axis : axes.flat<T>()) {
      if (axis < -rank || axis >= rank) {
        return InvalidArgument("Invalid reduction dimension (", axis, " for input with ", rank, " dimension(s)");
      }
      bool& mark = goes[axis < 0 ? axis + rank : axis];
      if (mark) return InvalidArgument("Invalid reduction arguments: Axes contains duplicate dimension: ", axis);
      mark = true;
    }
    return absl::OkStatus();
  });
}

// Pass over [1, reduced, inner] by pieces of rows, then over their results.
absl::Status ReduceByPieces(KernelContext& context, ReduceLoop loop, DType dtype, const void* in, void* out,
                            int64_t reduced, int64_t inner) {
  const size_t size = ElementSize(dtype);
  const int64_t rows = std::max<int64_t>(1, kPiece / inner), pieces = (reduced + rows - 1) / rows;
  ASSIGN_OR_RETURN(const Shape shape, Shape::Make({pieces, inner}));
  ASSIGN_OR_RETURN(Tensor partial, context.AllocateTemporary(dtype, shape));
  context.ParallelFor(pieces, 0.3 * static_cast<double>(rows * inner), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t count = std::min(rows, reduced - p * rows);
      loop(static_cast<const char*>(in) + p * rows * inner * size, static_cast<char*>(partial.raw()) + p * inner * size,
           1, count, inner);
    }
  });
  loop(partial.raw(), out, 1, pieces, inner);
  return absl::OkStatus();
}

absl::Status OnePass(KernelContext& context, ReduceLoop loop, DType dtype, const void* in, void* out, int64_t outer,
                     int64_t reduced, int64_t inner) {
  if (outer == 1 && inner < kPiece && reduced > kPiece / inner) {
    return ReduceByPieces(context, loop, dtype, in, out, reduced, inner);
  }
  const size_t size = ElementSize(dtype);
  context.ParallelFor(outer, 0.3 * static_cast<double>(reduced) * static_cast<double>(inner),
                      [&](int64_t begin, int64_t end) {
                        loop(static_cast<const char*>(in) + begin * reduced * inner * size,
                             static_cast<char*>(out) + begin * inner * size, end - begin, reduced, inner);
                      });
  return absl::OkStatus();
}

// Reduced axes and rank, as far as they are known while the graph is built.
std::optional<std::vector<bool>> KnownAxes(const Output& input, const Output& axes) {
  if (!input.shape().has_rank()) return std::nullopt;
  const Node* node = axes.node;
  while (node->op() == "Identity") node = node->input(0).node;
  if (node->op() != "Const") return std::nullopt;
  const absl::StatusOr<Tensor> value = GetAttr<Tensor>(node->def(), "value");
  if (!value.ok()) return std::nullopt;
  absl::InlinedVector<bool, 8> goes(input.shape().rank(), false);
  if (!MarkAxes(*value, absl::MakeSpan(goes)).ok()) return std::nullopt;
  return std::vector<bool>(goes.begin(), goes.end());
}

Output IntConst(const Scope& s, int32_t value) { return ScalarConst(s, kInt32, value); }

}  // namespace

absl::StatusOr<Reduction> Reduction::Make(const Shape& input, const Tensor& axes, bool keep_dims) {
  absl::InlinedVector<bool, 8> goes(input.rank(), false);
  RETURN_IF_ERROR(MarkAxes(axes, absl::MakeSpan(goes)));
  Reduction r;
  Dims shape;
  for (int i = 0; i < input.rank(); ++i) {
    const int64_t size = input.dim(i);
    if (!goes[i]) shape.push_back(size);
    if (goes[i] && keep_dims) shape.push_back(1);
    if (goes[i]) r.count *= size;
    if (size == 1) continue;
    if (!r.sizes.empty() && r.last_goes == goes[i]) {
      r.sizes.back() *= size;
    } else {
      r.sizes.push_back(size);
      r.last_goes = goes[i];
    }
  }
  ASSIGN_OR_RETURN(r.shape, Shape::Make(shape));
  return r;
}

absl::Status ReductionShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const bool keep_dims, c.Attr<bool>("keep_dims"));
  const PartialShape& input = c.input(0);
  if (!input.has_rank()) return absl::OkStatus();
  const std::optional<Tensor> axes = c.Constant(1);
  if (!axes.has_value()) {
    if (keep_dims) c.set_output(0, PartialShape::OfRank(input.rank()));
    return absl::OkStatus();
  }
  absl::InlinedVector<bool, 8> goes(input.rank(), false);
  RETURN_IF_ERROR(MarkAxes(*axes, absl::MakeSpan(goes)));
  Dims dims;
  for (int i = 0; i < input.rank(); ++i) {
    if (!goes[i]) dims.push_back(input.dim(i));
    if (goes[i] && keep_dims) dims.push_back(1);
  }
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

absl::Status RunReduction(KernelContext& context, const Reduction& reduction, ReduceLoop loop, const Tensor& in,
                          Tensor* out) {
  if (in.num_elements() == 0) {  // intermediate results of the passes may be huge
    if (out->num_elements() > 0) loop(in.raw(), out->raw(), out->num_elements(), 0, 1);
    return absl::OkStatus();
  }
  Dims sizes = reduction.sizes;
  int64_t inner = 1;
  if (!reduction.last_goes) {
    inner = sizes.back();
    sizes.pop_back();
  }
  Tensor source = in;
  // Invariant: sizes alternate and the last one goes; `inner` lies behind it.
  while (true) {
    const int64_t reduced = sizes.back();
    sizes.pop_back();
    int64_t outer = 1;
    for (const int64_t s : sizes) outer *= s;
    const bool last = sizes.size() < 2;
    Tensor target = *out;
    if (!last) {
      ASSIGN_OR_RETURN(const Shape shape, Shape::Make({outer, inner}));
      ASSIGN_OR_RETURN(target, context.AllocateTemporary(in.dtype(), shape));
    }
    if (outer * inner > 0) {
      RETURN_IF_ERROR(OnePass(context, loop, in.dtype(), source.raw(), target.raw(), outer, reduced, inner));
    }
    if (last) return absl::OkStatus();
    inner *= sizes.back();
    sizes.pop_back();
    source = std::move(target);
  }
}

absl::Status ReductionKernel::Init(const KernelInit& init) {
  ASSIGN_OR_RETURN(keep_dims_, init.Attr<bool>("keep_dims"));
  const DType dtype = RemoveRef(init.node().input_type(0));
  loop_ = select_(IsHalfPrecision(dtype) ? kFloat : dtype);
  if (loop_ == nullptr) return Unimplemented(init.node().op(), ": no kernel for type ", dtype);
  return absl::OkStatus();
}

absl::Status ReductionKernel::Compute(KernelContext& context) {
  const Tensor& in = context.input(0);
  ASSIGN_OR_RETURN(const Reduction reduction, Reduction::Make(in.shape(), context.input(1), keep_dims_));
  if (!reduction.reduces()) {
    context.set_output(0, in.WithShape(reduction.shape));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, reduction.shape));
  if (!IsHalfPrecision(in.dtype())) return RunReduction(context, reduction, loop_, in, out);
  ASSIGN_OR_RETURN(Tensor wide_in, context.AllocateTemporary(kFloat, in.shape()));
  ASSIGN_OR_RETURN(Tensor wide_out, context.AllocateTemporary(kFloat, out->shape()));
  HalfToFloat(in.dtype(), in.raw(), wide_in.mutable_data<float>(), in.num_elements());
  RETURN_IF_ERROR(RunReduction(context, reduction, loop_, wide_in, &wide_out));
  FloatToHalf(out->dtype(), wide_out.data<float>(), out->raw(), out->num_elements());
  return absl::OkStatus();
}

absl::StatusOr<Output> WithReducedDims(const GradientContext& g, Output y) {
  const Scope& s = g.scope();
  const Output x = g.input(0), axes = g.input(1);
  ASSIGN_OR_RETURN(const bool keep_dims, g.Attr<bool>("keep_dims"));
  if (keep_dims) return y;
  if (const std::optional<std::vector<bool>> goes = KnownAxes(x, axes); goes.has_value()) {
    for (size_t i = 0; i < goes->size(); ++i) {
      if ((*goes)[i]) y = s.Add("ExpandDims", {y, IntConst(s, static_cast<int32_t>(i))});
    }
    return y;
  }
  // The input's shape, with a 1 written over the size of every axis.
  const Output shape = s.Add("Shape", {x});
  const Output rank = s.Add("Size", {shape});
  const Output axes32 = axes.dtype() == kInt32 ? axes : Cast(s, axes, kInt32);
  const Output positive = FloorMod(s, Add(s, axes32, rank), rank);
  const Output all = s.Add("Range", {IntConst(s, 0), rank, IntConst(s, 1)});
  const Output kept = s.Add(
      "DynamicStitch", {std::vector<Output>{all, positive}, std::vector<Output>{shape, s.Add("OnesLike", {positive})}});
  return Output(s.Add("Reshape", {y, kept}));
}

Output Axes::AsTensor(const Scope& s, Output input) const {
  if (known_.has_value()) return IntsConst(s, *known_);
  if (!all_ || !input) return tensor_;
  if (input.shape().has_rank()) {
    std::vector<int32_t> axes(input.shape().rank());
    std::iota(axes.begin(), axes.end(), 0);
    return IntsConst(s, axes);
  }
  return s.Add("Range", {IntConst(s, 0), Output(s.Add("Rank", {input})), IntConst(s, 1)});
}

Output AddReduce(const Scope& s, absl::string_view op, Output input, const Axes& axes, const ReduceOptions& options) {
  return s.Add(op, {input, axes.AsTensor(s, input)}, {{"keep_dims", options.keep_dims}});
}

absl::StatusOr<Output> ToInputShape(const GradientContext& g, Output y) {
  const Scope& s = g.scope();
  const Output x = g.input(0);
  if (y.shape().rank() == 0) return Output(s.Add("Fill", {Output(s.Add("Shape", {x})), y}));
  ASSIGN_OR_RETURN(const Output kept, WithReducedDims(g, y));
  if (!s.ok()) return s.status();
  const std::optional<std::vector<bool>> goes = KnownAxes(x, g.input(1));
  if (goes.has_value() && x.shape().fully_known()) {
    std::vector<int32_t> multiples;
    for (size_t i = 0; i < goes->size(); ++i) {
      multiples.push_back((*goes)[i] ? static_cast<int32_t>(x.shape().dim(static_cast<int>(i))) : 1);
    }
    return Output(s.Add("Tile", {kept, IntsConst(s, multiples)}));
  }
  // Sizes of 0 stay 0: they are the same in both.
  const Output one = IntConst(s, 1);
  const Output multiples = FloorDiv(s, s.Add("Shape", {x}), Maximum(s, s.Add("Shape", {kept}), one));
  return Output(s.Add("Tile", {kept, Maximum(s, multiples, IntConst(s, 0))}));
}

}  // namespace thalweg
