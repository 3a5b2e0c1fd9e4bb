// SPDX-License-Identifier: Apache-2.0
// Select: elements of t where the condition holds, else of e. SelectV2
// broadcasts all three; Select wants t and e of one shape, and a condition of
// that shape, of one element, or of one element per row.
#include <algorithm>
#include <string>

#include "thalweg/base/simd.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"
#include "thalweg/ops/support/element_copy.h"

namespace thalweg {
namespace {

// Steps (0 or 1) and strides from one element or dimension to the next.
struct Steps {
  int64_t condition = 1;
  int64_t t = 1;
  int64_t e = 1;
};

template <typename T>
void PlainSelect(const bool* c, const T* t, const T* e, T* out, int64_t n, Steps by) {
  for (int64_t i = 0; i < n; ++i) out[i] = c[i * by.condition] ? t[i * by.t] : e[i * by.e];
}

// The usual case: an element of each.
template <typename T>
THALWEG_SIMD void SelectEach(const bool* c, const T* t, const T* e, T* out, int64_t n) {
  // By masks, not branches: conditions are hard to predict.
  const uint8_t* const bits = reinterpret_cast<const uint8_t*>(c);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T mask = static_cast<T>(T{0} - static_cast<T>(bits[i]));
    out[i] = static_cast<T>((t[i] & mask) | (e[i] & static_cast<T>(~mask)));
  }
}

template <typename T>
void SelectRow(const bool* c, const T* t, const T* e, T* out, int64_t n, Steps by) {
  if (by.condition == 0 && by.t == 1 && by.e == 1) {
    std::copy_n(*c ? t : e, n, out);
    return;
  }
  if constexpr (std::is_integral_v<T>) {
    if (by.condition == 1 && by.t == 1 && by.e == 1) return SelectEach(c, t, e, out, n);
  }
  PlainSelect(c, t, e, out, n, by);
}

// [outer] conditions, each for `inner` elements of t and e; or, for inner == 1,
// element by element.
absl::Status SelectRows(KernelContext& context, int64_t outer, int64_t inner, const Shape& shape) {
  const Tensor& condition = context.input(0);
  const Tensor& t = context.input(1);
  const Tensor& e = context.input(2);
  ASSIGN_OR_RETURN(Tensor * out, context.ForwardOrAllocate({1, 2}, 0, shape));
  const bool* const c = condition.data<bool>();
  return DispatchBySize(t.dtype(), [&]<typename T>() {
    const T* const from_t = static_cast<const T*>(t.raw());
    const T* const from_e = static_cast<const T*>(e.raw());
    T* const to = static_cast<T*>(out->raw());
    context.ParallelFor(outer, 0.5 * static_cast<double>(inner), [&](int64_t begin, int64_t end) {
      if (inner == 1) return SelectRow(c + begin, from_t + begin, from_e + begin, to + begin, end - begin, {});
      for (int64_t o = begin; o < end; ++o) {
        const T* const from = (c[o] ? from_t : from_e) + o * inner;
        if (from != to + o * inner) std::copy_n(from, inner, to + o * inner);
      }
    });
    return absl::OkStatus();
  });
}

absl::Status ComputeSelect(KernelContext& context) {
  const Tensor& condition = context.input(0);
  const Tensor& t = context.input(1);
  const Tensor& e = context.input(2);
  if (t.shape() != e.shape()) {
    return InvalidArgument("'then' and 'else' must have the same size.  but received: ", t.shape(), " vs. ", e.shape());
  }
  if (condition.shape() == t.shape()) return SelectRows(context, t.num_elements(), 1, t.shape());
  if (condition.rank() == 0) {
    context.set_output(0, context.TakeInput(condition.scalar<bool>() ? 1 : 2));
    return absl::OkStatus();
  }
  if (condition.rank() != 1) {
    return InvalidArgument("'cond' must be a scalar, a vector, or have the shape of 'then': ", condition.shape(),
                           " vs. ", t.shape());
  }
  if (t.rank() < 1) return InvalidArgument("'then' must be at least a vector, but saw shape: ", t.shape());
  if (t.dim(0) != condition.dim(0)) {
    return InvalidArgument("Number of batches of 'then' must match size of 'cond', but saw: ", t.dim(0), " vs. ",
                           condition.dim(0));
  }
  if (t.num_elements() == 0) return context.Allocate(0, t.shape()).status();
  return SelectRows(context, t.dim(0), t.num_elements() / t.dim(0), t.shape());
}

// The strides of a tensor of `shape` broadcast to rank `rank`; 0 for repeated dimensions.
// Outermost first.
Dims StridesIn(const Shape& shape, int rank) {
  Dims strides(rank, 0);
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape.dim(i) != 1) strides[i + rank - shape.rank()] = stride;
    stride *= shape.dim(i);
  }
  return strides;
}

absl::Status ComputeSelectV2(KernelContext& context) {
  const Tensor& condition = context.input(0);
  const Tensor& t = context.input(1);
  const Tensor& e = context.input(2);
  if (t.shape() == e.shape()) {
    if (condition.shape() == t.shape()) return SelectRows(context, t.num_elements(), 1, t.shape());
    if (condition.rank() == 0) {
      context.set_output(0, context.TakeInput(condition.scalar<bool>() ? 1 : 2));
      return absl::OkStatus();
    }
  }
  absl::StatusOr<Broadcast> branches = Broadcast::Make(t.shape(), e.shape());
  absl::StatusOr<Broadcast> all = branches.ok() ? Broadcast::Make(condition.shape(), branches->shape) : branches;
  if (!all.ok()) {
    return InvalidArgument("condition ", condition.shape(), ", then ", t.shape(), ", and else ", e.shape(),
                           " must be broadcastable");
  }
  const Shape& shape = all->shape;
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  const int rank = shape.rank();
  const Dims by_c = StridesIn(condition.shape(), rank), by_t = StridesIn(t.shape(), rank),
             by_e = StridesIn(e.shape(), rank);
  const int64_t columns = rank == 0 ? 1 : shape.dim(rank - 1), rows = shape.num_elements() / columns;
  const Steps steps = rank == 0 ? Steps() : Steps{by_c[rank - 1], by_t[rank - 1], by_e[rank - 1]};
  return DispatchBySize(t.dtype(), [&]<typename T>() {
    context.ParallelFor(rows, static_cast<double>(columns), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        int64_t rest = r;
        Steps at{0, 0, 0};
        for (int d = rank - 2; d >= 0; --d) {
          const int64_t i = rest % shape.dim(d);
          rest /= shape.dim(d);
          at.condition += i * by_c[d];
          at.t += i * by_t[d];
          at.e += i * by_e[d];
        }
        SelectRow(condition.data<bool>() + at.condition, static_cast<const T*>(t.raw()) + at.t,
                  static_cast<const T*>(e.raw()) + at.e, static_cast<T*>(out->raw()) + r * columns, columns, steps);
      }
    });
    return absl::OkStatus();
  });
}

absl::Status SelectShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(PartialShape shape, PartialShape::Merge(c.input(1), c.input(2)));
  const PartialShape& condition = c.input(0);
  if (condition.has_rank() && shape.has_rank() && condition.rank() > 0) {
    if (condition.rank() == 1 && shape.rank() >= 1) {
      const int64_t rows = condition.dim(0);
      if (rows >= 0 && shape.dim(0) >= 0 && rows != shape.dim(0)) {
        return InvalidArgument("Dimensions must be equal, but are ", rows, " and ", shape.dim(0), " for shapes ",
                               condition, " and ", shape);
      }
    } else {
      RETURN_IF_ERROR(PartialShape::Merge(condition, shape).status());
    }
  }
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status SelectV2Shape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const PartialShape branches, BroadcastShape(c.input(1), c.input(2)));
  ASSIGN_OR_RETURN(PartialShape shape, BroadcastShape(c.input(0), branches));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status SelectGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output zeros = s.Add("ZerosLike", {g.dy()});
  g.set_dx(1, Output(s.Add("Select", {g.input(0), g.dy(), zeros})));
  g.set_dx(2, Output(s.Add("Select", {g.input(0), zeros, g.dy()})));
  return absl::OkStatus();
}

absl::Status SelectV2Gradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output zeros = s.Add("ZerosLike", {g.dy()});
  const auto to_branch = [&](Output branch, Output t, Output e) {
    const Output dy = Select(s, g.input(0), t, e);
    // Use the result's shape in place of the other operand's: dimensions that are repeated to
    // reach it were broadcast.
    return SumBroadcast(s, branch, g.output(0), dy, dy).first;
  };
  g.set_dx(1, to_branch(g.input(1), g.dy(), zeros));
  g.set_dx(2, to_branch(g.input(2), zeros, g.dy()));
  return absl::OkStatus();
}

const OpRegistration kSelectOps[] = {
    Op("Select")
        .Input("condition: bool")
        .Input("t: T")
        .Input("e: T")
        .Output("output: T")
        .Attr("T: type")
        .Shape(SelectShape)
        .Compute(ComputeSelect)
        .Gradient(SelectGradient),
    Op("SelectV2")
        .Input("condition: bool")
        .Input("t: T")
        .Input("e: T")
        .Output("output: T")
        .Attr("T: type")
        .Shape(SelectV2Shape)
        .Compute(ComputeSelectV2)
        .Gradient(SelectV2Gradient),
};

}  // namespace

Output Select(const Scope& s, Output condition, Output t, Output e) { return s.Add("SelectV2", {condition, t, e}); }

}  // namespace thalweg
