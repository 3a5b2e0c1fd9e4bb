// SPDX-License-Identifier: Apache-2.0
// BroadcastGradientArgs and BroadcastArgs: what broadcasting does to shapes
// that are only known when the step runs.
#include "thalweg/ops/support/broadcast.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_join.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

// Size of dimension i of a result of rank `rank`; missing ones are 1.
int64_t SizeAt(absl::Span<const int64_t> dims, int i, int rank) {
  const int own = i - (rank - static_cast<int>(dims.size()));
  return own < 0 ? 1 : dims[own];
}

// A shape as an op's argument: int32 or int64, a vector.
absl::StatusOr<Dims> ShapeArgument(const Tensor& t, int index) {
  if (t.rank() != 1) return InvalidArgument("In[", index, "] must be a vector.", t.shape());
  if (t.num_elements() > Shape::kMaxRank) {
    return InvalidArgument("In[", index, "] has ", t.num_elements(), " dimensions, at most ", Shape::kMaxRank);
  }
  Dims dims(t.num_elements());
  RETURN_IF_ERROR(Dispatch(IndexTypes(), t.dtype(), [&]<typename T>() {
    std::copy_n(t.data<T>(), t.num_elements(), dims.begin());
    return absl::OkStatus();
  }));
  return dims;
}

absl::Status StoreDims(KernelContext& context, int i, const Dims& dims) {
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(i, Shape({static_cast<int64_t>(dims.size())})));
  return Dispatch(IndexTypes(), out->dtype(), [&]<typename T>() {
    std::copy(dims.begin(), dims.end(), out->mutable_data<T>());
    return absl::OkStatus();
  });
}

std::string ToText(const Dims& dims) { return absl::StrCat("[", absl::StrJoin(dims, ","), "]"); }

// r0, r1: the axes over which the gradients of operands of shapes s0 and s1
// are to be summed. Where both have size 1, both lists have the axis: summing
// over it changes nothing.
absl::Status BroadcastGradientArgs(KernelContext& context) {
  ASSIGN_OR_RETURN(const Dims s0, ShapeArgument(context.input(0), 0));
  ASSIGN_OR_RETURN(const Dims s1, ShapeArgument(context.input(1), 1));
  const int rank = static_cast<int>(std::max(s0.size(), s1.size()));
  Dims r0, r1;
  // Equal shapes: nothing was repeated.
  for (int i = 0; i < rank && s0 != s1; ++i) {
    const int64_t d0 = SizeAt(s0, i, rank), d1 = SizeAt(s1, i, rank);
    if (d0 != d1 && d0 != 1 && d1 != 1) {
      return InvalidArgument("Incompatible shapes: ", ToText(s0), " vs. ", ToText(s1));
    }
    if (d0 == 1) r0.push_back(i);
    if (d1 == 1) r1.push_back(i);
  }
  RETURN_IF_ERROR(StoreDims(context, 0, r0));
  return StoreDims(context, 1, r1);
}

absl::Status BroadcastArgs(KernelContext& context) {
  ASSIGN_OR_RETURN(const Dims s0, ShapeArgument(context.input(0), 0));
  ASSIGN_OR_RETURN(const Dims s1, ShapeArgument(context.input(1), 1));
  const int rank = static_cast<int>(std::max(s0.size(), s1.size()));
  Dims result(rank);
  for (int i = 0; i < rank; ++i) {
    const int64_t d0 = SizeAt(s0, i, rank), d1 = SizeAt(s1, i, rank);
    if (d0 != d1 && d0 != 1 && d1 != 1) {
      return InvalidArgument("Incompatible shapes: ", ToText(s0), " vs. ", ToText(s1));
    }
    result[i] = d0 == 1 ? d1 : d0;
  }
  return StoreDims(context, 0, result);
}

absl::Status GradientArgsShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.WithRank(0, 1).status());
  RETURN_IF_ERROR(c.WithRank(1, 1).status());
  c.set_output(0, PartialShape::OfRank(1));
  c.set_output(1, PartialShape::OfRank(1));
  return absl::OkStatus();
}

absl::Status ArgsShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape a, c.WithRank(0, 1));
  ASSIGN_OR_RETURN(const PartialShape b, c.WithRank(1, 1));
  const bool known = a.dim(0) >= 0 && b.dim(0) >= 0;
  c.set_output(0, PartialShape({known ? std::max(a.dim(0), b.dim(0)) : PartialShape::kUnknown}));
  return absl::OkStatus();
}

// The repeated axes, as far as the inferred shapes determine them.
struct RepeatedAxes {
  std::vector<int32_t> x, y;
  bool x_keeps_rank = true, y_keeps_rank = true;  // false: an axis that is summed stays, as a 1
};

// nullopt if that must wait for the step.
std::optional<RepeatedAxes> KnownRepeatedAxes(const PartialShape& x, const PartialShape& y) {
  if (!x.has_rank() || !y.has_rank()) return std::nullopt;
  const int rank = std::max(x.rank(), y.rank());
  RepeatedAxes axes;
  for (int i = 0; i < rank; ++i) {
    const int64_t dx = SizeAt(x.dims(), i, rank), dy = SizeAt(y.dims(), i, rank);
    if (dx == 1 && dy == 1) {
      // The dimension has size 1: an operand that lacks it only needs it removed.
      if (i < rank - x.rank()) axes.x.push_back(i);
      if (i < rank - y.rank()) axes.y.push_back(i);
      continue;
    }
    if (dx != 1 && dy != 1) {
      // Different sizes, of which one may turn out to be a 1.
      if (dx < 0 || dy < 0) return std::nullopt;
      continue;
    }
    if (dx == 1) {
      axes.x.push_back(i);
      if (i >= rank - x.rank()) axes.x_keeps_rank = false;
    }
    if (dy == 1) {
      axes.y.push_back(i);
      if (i >= rank - y.rank()) axes.y_keeps_rank = false;
    }
  }
  return axes;
}

// The shape of x: a constant if it is known, otherwise computed.
Output ShapeAsConst(const Scope& s, Output x) {
  if (const std::optional<Shape> known = x.shape().AsShape(); known.has_value()) {
    bool fits = true;
    std::vector<int32_t> dims;
    for (const int64_t d : known->dims()) {
      fits = fits && d <= std::numeric_limits<int32_t>::max();
      dims.push_back(static_cast<int32_t>(d));
    }
    if (fits) return IntsConst(s, dims);
  }
  return s.Add("Shape", {x});
}

Output SumKnownAxes(const Scope& s, Output x, Output dx, const std::vector<int32_t>& axes, bool keeps_rank) {
  if (axes.empty()) return dx;
  const Output sum = s.Add("Sum", {dx, IntsConst(s, axes)});
  if (keeps_rank) return sum;
  return s.Add("Reshape", {sum, ShapeAsConst(s, x)});
}

const OpRegistration kBroadcastOps[] = {
    Op("BroadcastGradientArgs")
        .Input("s0: T")
        .Input("s1: T")
        .Output("r0: T")
        .Output("r1: T")
        .Attr("T: {int32, int64} = DT_INT32")
        .Shape(GradientArgsShape)
        .Compute(BroadcastGradientArgs)
        .NotDifferentiable(),
    Op("BroadcastArgs")
        .Input("s0: T")
        .Input("s1: T")
        .Output("r0: T")
        .Attr("T: {int32, int64} = DT_INT32")
        .Shape(ArgsShape)
        .Compute(BroadcastArgs)
        .NotDifferentiable(),
};

}  // namespace

absl::StatusOr<Broadcast> Broadcast::Make(const Shape& x, const Shape& y) {
  Broadcast b;
  const int rank = std::max(x.rank(), y.rank());
  Dims dims(rank);
  int64_t x_stride = 1, y_stride = 1;
  bool x_repeats = false, y_repeats = false;  // in the dimension before
  for (int i = rank - 1; i >= 0; --i) {
    const int64_t dx = SizeAt(x.dims(), i, rank), dy = SizeAt(y.dims(), i, rank);
    if (dx != dy && dx != 1 && dy != 1) {
      return InvalidArgument("Incompatible shapes: ", x, " vs. ", y);
    }
    dims[i] = dx == 1 ? dy : dx;
    if (dims[i] == 1) continue;
    const bool xr = dx == 1, yr = dy == 1;
    if (!b.sizes.empty() && xr == x_repeats && yr == y_repeats) {
      b.sizes.back() *= dims[i];
    } else {
      b.sizes.push_back(dims[i]);
      b.x_strides.push_back(xr ? 0 : x_stride);
      b.y_strides.push_back(yr ? 0 : y_stride);
      x_repeats = xr;
      y_repeats = yr;
    }
    x_stride *= dx;
    y_stride *= dy;
  }
  if (b.sizes.empty()) {
    b.sizes.push_back(1);
    b.x_strides.push_back(1);
    b.y_strides.push_back(1);
  }
  ASSIGN_OR_RETURN(b.shape, Shape::Make(dims));
  return b;
}

std::pair<Output, Output> SumBroadcast(const Scope& s, Output x, Output y, Output dx, Output dy) {
  if (!s.ok()) return {};
  if (const std::optional<RepeatedAxes> axes = KnownRepeatedAxes(x.shape(), y.shape()); axes.has_value()) {
    return {SumKnownAxes(s, x, dx, axes->x, axes->x_keeps_rank), SumKnownAxes(s, y, dy, axes->y, axes->y_keeps_rank)};
  }
  const Output x_shape = ShapeAsConst(s, x), y_shape = ShapeAsConst(s, y);
  Node* const args = s.Add("BroadcastGradientArgs", {x_shape, y_shape});
  if (args == nullptr) return {};
  return {s.Add("Reshape", {Output(s.Add("Sum", {dx, args->out(0)})), x_shape}),
          s.Add("Reshape", {Output(s.Add("Sum", {dy, args->out(1)})), y_shape})};
}

Output ScalarConst(const Scope& s, DType dtype, double value) {
  if (dtype == kInvalid) s.Fail(InvalidArgument("a tensor is missing"));
  if (!s.ok()) return {};
  Tensor t(RemoveRef(dtype), Shape());
  s.Fail(Dispatch(NumberTypes(), t.dtype(), [&]<typename T>() {
    *t.mutable_data<T>() = static_cast<T>(value);
    return absl::OkStatus();
  }));
  return s.Argument("value").Add("Const", {}, {{"dtype", t.dtype()}, {"value", t}});
}

Output IntsConst(const Scope& s, absl::Span<const int32_t> values) {
  return s.Argument("axes").Add("Const", {}, {{"dtype", kInt32}, {"value", Tensor::Vector<int32_t>(values)}});
}

}  // namespace thalweg
