// SPDX-License-Identifier: Apache-2.0
// The frame of all Apply* ops, the updates that optimizers make. A *rule* says
// what happens to one element of the variable and its slots; the frame does the
// rest, for the four forms of each op: dense or sparse, ref or resource.
//
//   struct GradientDescent {
//     static constexpr int kSlots = 1;                      // variables at the front of the inputs
//     using Types = ::thalweg::Types<float, double>;        // for which there is a kernel
//     absl::Status Init(const KernelInit&);                 // reads attributes
//     // h: the scalar inputs, in order. Calls run(step) with
//     // step(g, var, ...) for one element.
//     template <typename C, typename Run>
//     void With(const C* h, Run run) const {
//       run([lr = h[0]](C g, C& var) { var -= g * lr; });
//     }
//   };
//
// All elements are computed in C: float for the 16-bit types. Variables are
// locked for the whole update; a value that a reader still holds stays as it
// is and is replaced at the end.
#pragma once

#include <algorithm>
#include <array>
#include <complex>
#include <memory>
#include <utility>

#include "absl/strings/string_view.h"
#include "thalweg/base/simd.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/learning_rate.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/state/variable_update.h"
#include "thalweg/ops/support/elementwise.h"

namespace thalweg {

// Which input is what: the slots, then scalars, the gradient and, for sparse
// updates, the rows.
struct ApplyInputs {
  static constexpr int kMaxScalars = 8;
  int slots = 0;
  int gradient = -1;
  int indices = -1;  // -1: dense
  int num_scalars = 0;
  int learning_rate = -1;  // its place among the scalars; -1: there is none
  std::array<int, kMaxScalars> scalars = {};
};
ApplyInputs FindApplyInputs(const tensorflow::OpDef& op, int slots);

// Everything but the types of the variables' values: shapes, and that rows are
// in range. Nothing was written when it fails.
absl::Status CheckApply(const KernelContext& context, const ApplyInputs& inputs, const LockedVariables& variables);

// Row numbers as int64.
absl::StatusOr<Tensor> WideIndices(KernelContext& context, const Tensor& indices);

// An op of this frame: "var m v" and "beta1_power ... grad" are names of its
// inputs; `attrs` come after use_locking.
Op ApplyOp(absl::string_view name, absl::string_view slots, absl::string_view inputs,
           std::initializer_list<absl::string_view> attrs);

template <typename T>
struct ComputeTypeTrait {
  using type = T;
};
template <>
struct ComputeTypeTrait<Half> {
  using type = float;
};
template <>
struct ComputeTypeTrait<BFloat16> {
  using type = float;
};
template <typename T>
using ComputeType = typename ComputeTypeTrait<T>::type;

namespace apply_internal {

// Old and new memory of each slot; they may be the same.
template <typename T, int kSlots>
struct SlotMemory {
  std::array<const T*, kSlots> in;
  std::array<T*, kSlots> out;
};

template <typename T, int kSlots, typename Step, size_t... I>
THALWEG_SIMD void ApplyDense(std::index_sequence<I...>, const SlotMemory<T, kSlots>& memory, const T* gradient,
                             int64_t begin, int64_t end, Step step) {
  const std::array<const T*, kSlots> in = memory.in;
  const std::array<T*, kSlots> out = memory.out;
#pragma GCC ivdep
  for (int64_t i = begin; i < end; ++i) {
    T slot[kSlots] = {in[I][i]...};
    step(gradient[i], slot[I]...);
    ((out[I][i] = slot[I]), ...);
  }
}

// For the rows in [first, last) of the table, in the order of `indices`: a row
// that repeats is updated repeatedly.
template <typename T, int kSlots, typename Step, size_t... I>
THALWEG_SIMD void ApplyRows(std::index_sequence<I...>, const SlotMemory<T, kSlots>& memory, const T* gradient,
                            const int64_t* indices, int64_t count, int64_t width, int64_t first, int64_t last,
                            Step step) {
  constexpr int64_t kAhead = 8;  // rows
  for (int64_t r = 0; r < count; ++r) {
    if (r + kAhead < count) {
      const int64_t next = indices[r + kAhead] * width;
      // The first lines of a row; the hardware follows from there.
      (__builtin_prefetch(memory.out[I] + next, 1), ...);
      (__builtin_prefetch(reinterpret_cast<const char*>(memory.out[I] + next) + 64, 1), ...);
    }
    const int64_t row = indices[r];
    if (row < first || row >= last) continue;
    const std::array<T*, kSlots> out = {(memory.out[I] + row * width)...};
    const T* const g = gradient + r * width;
#pragma GCC ivdep
    for (int64_t i = 0; i < width; ++i) {
      T slot[kSlots] = {out[I][i]...};
      step(g[i], slot[I]...);
      ((out[I][i] = slot[I]), ...);
    }
  }
}

// ApplyDense for 16-bit slots and gradient: as float, block by block.
template <int kSlots, typename Step>
void ApplyHalf(DType type, const SlotMemory<uint16_t, kSlots>& memory, const uint16_t* gradient, int64_t begin,
               int64_t end, Step step) {
  constexpr int64_t kBlock = 256;
  float g[kBlock];
  float slots[kSlots][kBlock];
  SlotMemory<float, kSlots> block;
  for (int i = 0; i < kSlots; ++i) block.in[i] = block.out[i] = slots[i];
  for (; begin < end; begin += kBlock) {
    const int64_t n = std::min(kBlock, end - begin);
    HalfToFloat(type, gradient + begin, g, n);
    for (int i = 0; i < kSlots; ++i) HalfToFloat(type, memory.in[i] + begin, slots[i], n);
    ApplyDense<float, kSlots>(std::make_index_sequence<kSlots>(), block, g, 0, n, step);
    for (int i = 0; i < kSlots; ++i) FloatToHalf(type, slots[i], memory.out[i] + begin, n);
  }
}

// ApplyRows for them.
template <int kSlots, typename Step>
void ApplyHalfRows(DType type, const SlotMemory<uint16_t, kSlots>& memory, const uint16_t* gradient,
                   const int64_t* indices, int64_t count, int64_t width, int64_t first, int64_t last, Step step) {
  for (int64_t r = 0; r < count; ++r) {
    const int64_t row = indices[r];
    if (row < first || row >= last) continue;
    SlotMemory<uint16_t, kSlots> slots;
    for (int i = 0; i < kSlots; ++i) slots.in[i] = slots.out[i] = memory.out[i] + row * width;
    ApplyHalf<kSlots>(type, slots, gradient + r * width, 0, width, step);
  }
}

// Runs How::RunAs for the type that elements are stored as. C is what they are
// computed in; 16-bit ones are stored as uint16_t here.
template <typename How>
struct AsStored {
  template <typename C, int kSlots, typename Step>
  static absl::Status Run(KernelContext& context, const ApplyInputs& inputs, LockedVariables& variables, Step step) {
    if constexpr (std::is_same_v<C, float>) {
      if (IsHalfPrecision(variables.value(0).dtype())) {
        return How::template RunAs<uint16_t, kSlots>(context, inputs, variables, step);
      }
    }
    return How::template RunAs<C, kSlots>(context, inputs, variables, step);
  }
};

struct Dense : AsStored<Dense> {
  template <typename T, int kSlots, typename Step>
  static absl::Status RunAs(KernelContext& context, const ApplyInputs& inputs, LockedVariables& variables, Step step) {
    const Tensor& gradient = context.input(inputs.gradient);
    std::array<InPlaceOrNew, kSlots> places;
    SlotMemory<T, kSlots> memory;
    for (int i = 0; i < kSlots; ++i) {
      RETURN_IF_ERROR(places[i].Prepare(context, variables.mutable_value(i)));
      memory.in[i] = static_cast<const T*>(variables.value(i).raw());
      memory.out[i] = static_cast<T*>(places[i].target().raw());
    }
    const T* const g = static_cast<const T*>(gradient.raw());
    context.ParallelFor(gradient.num_elements(), 0.1 * (kSlots + 1), [&](int64_t begin, int64_t end) {
      if constexpr (std::is_same_v<T, uint16_t>) {
        ApplyHalf<kSlots>(gradient.dtype(), memory, g, begin, end, step);
      } else {
        ApplyDense<T, kSlots>(std::make_index_sequence<kSlots>(), memory, g, begin, end, step);
      }
    });
    for (InPlaceOrNew& place : places) place.Commit();
    return absl::OkStatus();
  }
};

// Threads share the rows of the table between them, so that none meets another
// and the order in which a row is updated stays.
struct Sparse : AsStored<Sparse> {
  template <typename T, int kSlots, typename Step>
  static absl::Status RunAs(KernelContext& context, const ApplyInputs& inputs, LockedVariables& variables, Step step) {
    const Tensor& gradient = context.input(inputs.gradient);
    ASSIGN_OR_RETURN(const Tensor indices, WideIndices(context, context.input(inputs.indices)));
    const int64_t rows = variables.value(0).dim(0);
    const int64_t count = indices.num_elements();
    if (rows == 0 || count == 0) return absl::OkStatus();
    const int64_t width = gradient.num_elements() / count;
    SlotMemory<T, kSlots> memory;
    for (int i = 0; i < kSlots; ++i) {
      RETURN_IF_ERROR(variables.variable(i).MakeRowsWritable(indices.flat<int64_t>(), width * sizeof(T)));
      memory.in[i] = memory.out[i] = static_cast<T*>(variables.value(i).raw());
    }
    const double nanos = (20.0 + 0.1 * (kSlots + 1) * width) * count;
    context.ParallelFor(rows, nanos / rows, [&](int64_t begin, int64_t end) {
      const T* const g = static_cast<const T*>(gradient.raw());
      if constexpr (std::is_same_v<T, uint16_t>) {
        ApplyHalfRows<kSlots>(gradient.dtype(), memory, g, indices.data<int64_t>(), count, width, begin, end, step);
      } else {
        ApplyRows<T, kSlots>(std::make_index_sequence<kSlots>(), memory, g, indices.data<int64_t>(), count, width,
                             begin, end, step);
      }
    });
    return absl::OkStatus();
  }
};

template <typename Rule, typename Form>
class ApplyKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    inputs_ = FindApplyInputs(init.node().schema()->def, Rule::kSlots);
    if (inputs_.learning_rate >= 0) learning_rate_ = LearningRate::Of(init.device().resources());
    return rule_.Init(init);
  }

  absl::Status Compute(KernelContext& context) override {
    {
      LockedVariables variables;
      RETURN_IF_ERROR(variables.Lock(context, Rule::kSlots));
      RETURN_IF_ERROR(CheckApply(context, inputs_, variables));
      RETURN_IF_ERROR(Dispatch(typename Rule::Types(), context.input(inputs_.gradient).dtype(),
                               [&]<typename T>() { return Apply<ComputeType<T>>(context, variables); }));
    }
    if (context.num_outputs() > 0) context.set_variable(0, &context.variable(0));
    return absl::OkStatus();
  }

 private:
  // The scalar has the variable's type or, for steps, int64.
  template <typename C>
  static C ReadScalar(const Tensor& scalar) {
    if constexpr (std::is_arithmetic_v<C>) {
      if (scalar.dtype() == kInt64) return static_cast<C>(scalar.scalar<int64_t>());
    }
    if constexpr (std::is_same_v<C, float>) {
      if (scalar.dtype() == kHalf) return scalar.scalar<Half>();
      if (scalar.dtype() == kBfloat16) return scalar.scalar<BFloat16>();
    }
    return scalar.scalar<C>();
  }

  template <typename C>
  absl::Status Apply(KernelContext& context, LockedVariables& variables) const {
    C scalars[ApplyInputs::kMaxScalars];
    for (int i = 0; i < inputs_.num_scalars; ++i) scalars[i] = ReadScalar<C>(context.input(inputs_.scalars[i]));
    if constexpr (std::is_arithmetic_v<C>) {
      if (learning_rate_ != nullptr) learning_rate_->Set(static_cast<double>(scalars[inputs_.learning_rate]));
    }
    absl::Status status;
    rule_.With(scalars,
               [&](auto step) { status = Form::template Run<C, Rule::kSlots>(context, inputs_, variables, step); });
    return status;
  }

  ApplyInputs inputs_;
  std::shared_ptr<LearningRate> learning_rate_;  // part of the task's status
  Rule rule_;
};

}  // namespace apply_internal

template <typename Rule>
Op DenseApply(absl::string_view name, absl::string_view slots, absl::string_view inputs,
              std::initializer_list<absl::string_view> attrs = {}) {
  return ApplyOp(name, slots, inputs, attrs)
      .template Kernel<apply_internal::ApplyKernel<Rule, apply_internal::Dense>>();
}

template <typename Rule>
Op SparseApply(absl::string_view name, absl::string_view slots, absl::string_view inputs,
               std::initializer_list<absl::string_view> attrs = {}) {
  return ApplyOp(name, slots, inputs, attrs)
      .template Kernel<apply_internal::ApplyKernel<Rule, apply_internal::Sparse>>();
}

}  // namespace thalweg
