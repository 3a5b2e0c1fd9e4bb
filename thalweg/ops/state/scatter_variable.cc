// SPDX-License-Identifier: Apache-2.0
// Scatter ops: rows of a variable are set to, or combined with, rows of
// `updates` (or with one scalar):
//
//   params[indices[i, ...], ...] op= updates[i, ..., ...]
//
// for updates of shape indices.shape + params.shape[1:], or []. Rows that
// repeat are combined in order. Ref forms pass the variable on.
#include <algorithm>
#include <cstring>

#include "thalweg/base/simd.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/state/scatter_check.h"
#include "thalweg/ops/state/variable_update.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

struct Update {
  using Types = AllTypes;
  template <typename T>
  static void Apply(T& a, const T& b) {
    a = b;
  }
};
struct AddTo {
  using Types = NumberTypes;
  template <typename T>
  static void Apply(T& a, const T& b) {
    a = static_cast<T>(a + b);
  }
};
struct SubtractFrom {
  using Types = NumberTypes;
  template <typename T>
  static void Apply(T& a, const T& b) {
    a = static_cast<T>(a - b);
  }
};
struct Multiply {
  using Types = NumberTypes;
  template <typename T>
  static void Apply(T& a, const T& b) {
    a = static_cast<T>(a * b);
  }
};
struct Divide {
  using Types = NumberTypes;
  template <typename T>
  static void Apply(T& a, const T& b) {
    if constexpr (std::is_integral_v<T>) {
      // Checked before; but the smallest number by -1 overflows.
      a = std::is_signed_v<T> && b == static_cast<T>(-1) ? static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a))
                                                         : static_cast<T>(a / b);
    } else {
      a = static_cast<T>(a / b);
    }
  }
};
struct Min {
  using Types = RealTypes;
  template <typename T>
  static void Apply(T& a, const T& b) {
    a = b < a ? b : a;
  }
};
struct Max {
  using Types = RealTypes;
  template <typename T>
  static void Apply(T& a, const T& b) {
    a = a < b ? b : a;
  }
};

// b_step: 0 for a scalar, else 1.
template <typename Combine, typename T>
[[gnu::always_inline]] inline void ScatterRows(T* params, const int64_t* rows, int64_t count, int64_t width,
                                               const T* updates, int64_t b_step) {
  constexpr int64_t kAhead = 8;
  for (int64_t r = 0; r < count; ++r) {
    if (r + kAhead < count) __builtin_prefetch(params + rows[r + kAhead] * width, 1);
    T* const to = params + rows[r] * width;
    const T* const from = updates + r * width * b_step;
    if (b_step == 0) {
      for (int64_t i = 0; i < width; ++i) Combine::template Apply<T>(to[i], *from);
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < width; ++i) Combine::template Apply<T>(to[i], from[i]);
    }
  }
}

template <typename Combine, typename T>
THALWEG_SIMD void HotScatterRows(T* params, const int64_t* rows, int64_t count, int64_t width, const T* updates,
                                 int64_t b_step) {
  ScatterRows<Combine, T>(params, rows, count, width, updates, b_step);
}

template <typename Combine>
class ScatterKernel final : public Kernel {
 public:
  absl::Status Compute(KernelContext& context) override {
    ASSIGN_OR_RETURN(const HeldVariable variable, FindVariable(context, 0));
    const Tensor& updates = context.input(2);
    RETURN_IF_ERROR(variable->UpdateRows([&](Tensor& params) -> absl::Status {
      RETURN_IF_ERROR(CheckInitialized(*variable, params));
      RETURN_IF_ERROR(CheckScatter(params, context.input(1), updates));
      ASSIGN_OR_RETURN(const Tensor rows, CheckedRows(context, context.input(1), params.dim(0)));
      const int64_t count = rows.num_elements();
      if (count == 0 || params.num_elements() == 0) return absl::OkStatus();
      const int64_t width = params.num_elements() / params.dim(0);
      RETURN_IF_ERROR(variable->MakeRowsWritable(rows.flat<int64_t>(), width * Buffer::Stride(params.dtype())));
      return Dispatch(typename Combine::Types(), params.dtype(), [&]<typename T>() -> absl::Status {
        if constexpr (std::is_same_v<Combine, Divide> && std::is_integral_v<T>) {
          for (const T v : updates.flat<T>()) {
            if (v == 0) return InvalidArgument("Integer division by zero");
          }
        }
        const int64_t b_step = updates.shape().is_scalar() && params.rank() > 0 ? 0 : 1;
        T* const to = params.mutable_data<T>();
        if constexpr (kIsHot<T>) {
          HotScatterRows<Combine, T>(to, rows.data<int64_t>(), count, width, updates.data<T>(), b_step);
        } else {
          ScatterRows<Combine, T>(to, rows.data<int64_t>(), count, width, updates.data<T>(), b_step);
        }
        return absl::OkStatus();
      });
    }));
    if (context.num_outputs() > 0) context.set_variable(0, &context.variable(0));
    return absl::OkStatus();
  }
};

absl::Status ScatterShape(ShapeContext& c) {
  PartialShape params = VariableShapeOf(c, 0);
  if (params.rank() == 0) return InvalidArgument("params must be at least 1-D, got shape []");
  const PartialShape& indices = c.input(1);
  const PartialShape& updates = c.input(2);
  if (params.has_rank() && indices.has_rank() && updates.has_rank() && updates.rank() != 0) {
    Dims dims(indices.dims().begin(), indices.dims().end());
    dims.insert(dims.end(), params.dims().begin() + 1, params.dims().end());
    RETURN_IF_ERROR(PartialShape::Merge(updates, PartialShape(std::move(dims))).status());
  }
  if (c.num_outputs() > 0) c.set_output(0, std::move(params));
  return absl::OkStatus();
}

template <typename Combine>
Op RefScatter(absl::string_view name, absl::string_view types,
              absl::string_view locking = "use_locking: bool = false") {
  return Op(name)
      .Input("ref: Ref(T)")
      .Input("indices: Tindices")
      .Input("updates: T")
      .Output("output_ref: Ref(T)")
      .Attr(types)
      .Attr("Tindices: {int32, int64}")
      .Attr(locking)
      .Shape(ScatterShape)
      .template Kernel<ScatterKernel<Combine>>()
      .NotDifferentiable();
}

template <typename Combine>
Op ResourceScatter(absl::string_view name, absl::string_view types = "dtype: numbertype") {
  return Op(name)
      .Input("resource: resource")
      .Input("indices: Tindices")
      .Input("updates: dtype")
      .Attr(types)
      .Attr("Tindices: {int32, int64}")
      .Stateful()
      .Shape(ScatterShape)
      .template Kernel<ScatterKernel<Combine>>()
      .NotDifferentiable();
}

const OpRegistration kScatterVariableOps[] = {
    RefScatter<Update>("ScatterUpdate", "T: type", "use_locking: bool = true"),
    RefScatter<AddTo>("ScatterAdd", "T: numbertype"),
    RefScatter<SubtractFrom>("ScatterSub", "T: numbertype"),
    RefScatter<Multiply>("ScatterMul", "T: numbertype"),
    RefScatter<Divide>("ScatterDiv", "T: numbertype"),
    RefScatter<Min>("ScatterMin", "T: {half, bfloat16, float, double, int32, int64}"),
    RefScatter<Max>("ScatterMax", "T: {half, bfloat16, float, double, int32, int64}"),
    ResourceScatter<Update>("ResourceScatterUpdate", "dtype: type"),
    ResourceScatter<AddTo>("ResourceScatterAdd"),
    ResourceScatter<SubtractFrom>("ResourceScatterSub"),
    ResourceScatter<Multiply>("ResourceScatterMul"),
    ResourceScatter<Divide>("ResourceScatterDiv"),
    ResourceScatter<Min>("ResourceScatterMin"),
    ResourceScatter<Max>("ResourceScatterMax"),
};

Output AddScatter(const Scope& s, absl::string_view op, Output variable, Output indices, Output updates,
                  bool use_locking) {
  if (variable.node != nullptr && variable.dtype() == kResource) {
    return s.Add(absl::StrCat("Resource", op), {variable, indices, updates});
  }
  return s.Add(op, {variable, indices, updates}, {{"use_locking", use_locking}});
}

}  // namespace

Output ScatterUpdate(const Scope& s, Output variable, Output indices, Output updates, const AssignOptions& options) {
  return AddScatter(s, "ScatterUpdate", variable, indices, updates, options.use_locking);
}
Output ScatterAdd(const Scope& s, Output variable, Output indices, Output updates, const UpdateOptions& options) {
  return AddScatter(s, "ScatterAdd", variable, indices, updates, options.use_locking);
}
Output ScatterSub(const Scope& s, Output variable, Output indices, Output updates, const UpdateOptions& options) {
  return AddScatter(s, "ScatterSub", variable, indices, updates, options.use_locking);
}
Output ScatterMul(const Scope& s, Output variable, Output indices, Output updates, const UpdateOptions& options) {
  return AddScatter(s, "ScatterMul", variable, indices, updates, options.use_locking);
}
Output ScatterDiv(const Scope& s, Output variable, Output indices, Output updates, const UpdateOptions& options) {
  return AddScatter(s, "ScatterDiv", variable, indices, updates, options.use_locking);
}
Output ScatterMin(const Scope& s, Output variable, Output indices, Output updates, const UpdateOptions& options) {
  return AddScatter(s, "ScatterMin", variable, indices, updates, options.use_locking);
}
Output ScatterMax(const Scope& s, Output variable, Output indices, Output updates, const UpdateOptions& options) {
  return AddScatter(s, "ScatterMax", variable, indices, updates, options.use_locking);
}

}  // namespace thalweg
