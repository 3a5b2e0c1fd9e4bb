// SPDX-License-Identifier: Apache-2.0
// Shared by reductions: which dimensions are reduced, and the loops.
//
// Adjacent dimensions that are both reduced or both kept are merged. The remaining ones are
// reduced one at a time, innermost first. Every pass is a loop over [outer, reduced, inner],
// which compilers vectorize well both for inner == 1 (a row to a number) and for inner > 1
// (rows to a row).
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"
#include "thalweg/base/simd.h"
#include "thalweg/graph/gradient.h"
#include "thalweg/graph/shape_context.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/elementwise.h"

namespace thalweg {

struct Reduction {
  // INVALID_ARGUMENT for axes out of range or named twice.
  static absl::StatusOr<Reduction> Make(const Shape& input, const Tensor& axes, bool keep_dims);

  Shape shape;             // shape of the result
  Dims sizes;              // merged dimensions, outermost first, without dimensions of size 1
  bool last_goes = false;  // whether the last of `sizes` is reduced; before it they alternate
  int64_t count = 1;       // elements per result

  bool reduces() const { return last_goes ? !sizes.empty() : sizes.size() > 1; }
};

// The node of a reduction.
Output AddReduce(const Scope& s, absl::string_view op, Output input, const Axes& axes, const ReduceOptions& options);

// The same for shape functions, from inferred shapes.
absl::Status ReductionShape(ShapeContext& c);

// [outer, reduced, inner] -> [outer, inner]. R has Identity<T>() and
// operator()(T, T), associative.
template <typename T, typename R>
[[gnu::always_inline]] inline void ReducePass(const T* in, T* out, int64_t outer, int64_t reduced, int64_t inner) {
  if (inner == 1) {
    // Separate accumulators per lane vectorize, and keep rounding errors small.
    constexpr int kLanes = 32;
    for (int64_t o = 0; o < outer; ++o, in += reduced) {
      T total = R::template Identity<T>();
      int64_t i = 0;
      if (reduced >= 2 * kLanes) {
        T lanes[kLanes];
        for (int l = 0; l < kLanes; ++l) lanes[l] = in[l];
        for (i = kLanes; i + kLanes <= reduced; i += kLanes) {
          for (int l = 0; l < kLanes; ++l) lanes[l] = R()(lanes[l], in[i + l]);
        }
        for (int step = kLanes / 2; step > 0; step /= 2) {
          for (int l = 0; l < step; ++l) lanes[l] = R()(lanes[l], lanes[l + step]);
        }
        total = lanes[0];
      }
      for (; i < reduced; ++i) total = R()(total, in[i]);
      out[o] = total;
    }
    return;
  }
  for (int64_t o = 0; o < outer; ++o, out += inner) {
    std::fill_n(out, inner, R::template Identity<T>());
    for (int64_t r = 0; r < reduced; ++r, in += inner) {
#pragma GCC ivdep
      for (int64_t i = 0; i < inner; ++i) out[i] = R()(out[i], in[i]);
    }
  }
}

template <typename T, typename R>
THALWEG_SIMD void HotReducePass(const void* in, void* out, int64_t outer, int64_t reduced, int64_t inner) {
  ReducePass<T, R>(static_cast<const T*>(in), static_cast<T*>(out), outer, reduced, inner);
}
template <typename T, typename R>
void PlainReducePass(const void* in, void* out, int64_t outer, int64_t reduced, int64_t inner) {
  ReducePass<T, R>(static_cast<const T*>(in), static_cast<T*>(out), outer, reduced, inner);
}

using ReduceLoop = void (*)(const void* in, void* out, int64_t outer, int64_t reduced, int64_t inner);

// The pass of R for `dtype`; nullptr if it has none.
template <typename R, typename... Ts>
ReduceLoop SelectReduceOf(Types<Ts...>, DType dtype) {
  ReduceLoop loop = nullptr;
  const auto choose = [&]<typename T>() {
    if constexpr (kIsHot<T>) {
      loop = HotReducePass<T, R>;
    } else {
      loop = PlainReducePass<T, R>;
    }
  };
  ((dtype == DTypeOf<Ts> ? (choose.template operator()<Ts>(), true) : false) || ...);
  return loop;
}
template <typename R, typename List>
ReduceLoop SelectReduce(DType dtype) {
  return SelectReduceOf<R>(List(), dtype);
}

// Runs all passes from `in` to `out`, which has the shape of the result and the
// type of `in`. REQUIRES: reduction.reduces().
absl::Status RunReduction(KernelContext& context, const Reduction& reduction, ReduceLoop loop, const Tensor& in,
                          Tensor* out);

// A reduction whose result has the input's type. Half precision is reduced in float.
class ReductionKernel : public Kernel {
 public:
  explicit ReductionKernel(ReduceLoop (*select)(DType)) : select_(select) {}
  absl::Status Init(const KernelInit& init) override;
  absl::Status Compute(KernelContext& context) override;

 protected:
  ReduceLoop (*const select_)(DType);
  ReduceLoop loop_ = nullptr;
  bool keep_dims_ = false;
};

// ---- for gradients ----

// y, which has the shape of the reduction's result, with the reduced dimensions restored with
// size 1.
absl::StatusOr<Output> WithReducedDims(const GradientContext& g, Output y);
// The same, broadcast to the shape of the input.
absl::StatusOr<Output> ToInputShape(const GradientContext& g, Output y);

}  // namespace thalweg
