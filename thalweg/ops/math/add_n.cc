// SPDX-License-Identifier: Apache-2.0
// AddN, AccumulateNV2: the sum of several tensors of one shape.
#include <algorithm>

#include "thalweg/base/simd.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/ops/support/numbers.h"
#include "thalweg/ops/support/variant_arithmetic.h"

namespace thalweg {
namespace {

// Elements that are summed over all inputs before the next ones: they stay in
// the first-level cache.
constexpr int64_t kBlock = 2048;

template <typename T>
THALWEG_SIMD void Sum2(const T* a, const T* b, T* y, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = WrapAdd(a[i], b[i]);
}
template <typename T>
THALWEG_SIMD void Sum3(const T* a, const T* b, const T* c, T* y, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = WrapAdd(WrapAdd(a[i], b[i]), c[i]);
}

template <typename T>
void SumBlock(KernelContext& context, int64_t begin, int64_t n, T* out) {
  const int count = context.num_inputs();
  const auto at = [&](int i) { return context.input(i).data<T>() + begin; };
  int i = 3;
  if (count == 2) {
    Sum2(at(0), at(1), out, n);
  } else {
    Sum3(at(0), at(1), at(2), out, n);
  }
  for (; i + 1 < count; i += 2) Sum3(out, at(i), at(i + 1), out, n);
  if (i < count) Sum2(out, at(i), out, n);
}

// Half precision is summed in float and rounded once.
void SumHalfBlock(KernelContext& context, DType dtype, int64_t begin, int64_t n, void* out) {
  float sum[kBlock], next[kBlock];
  const auto at = [&](int i) { return static_cast<const char*>(context.input(i).raw()) + begin * ElementSize(dtype); };
  HalfToFloat(dtype, at(0), sum, n);
  for (int i = 1; i < context.num_inputs(); ++i) {
    HalfToFloat(dtype, at(i), next, n);
    Sum2(sum, next, sum, n);
  }
  FloatToHalf(dtype, sum, static_cast<char*>(out) + begin * ElementSize(dtype), n);
}

absl::Status SumVariants(KernelContext& context) {
  Tensor sum = context.input(0);
  for (int i = 1; i < context.num_inputs(); ++i) {
    ASSIGN_OR_RETURN(sum, AddTensors(sum, context.input(i)));
  }
  context.set_output(0, std::move(sum));
  return absl::OkStatus();
}

absl::Status ComputeSum(KernelContext& context) {
  const Tensor& first = context.input(0);
  const int count = context.num_inputs();
  for (int i = 1; i < count; ++i) {
    if (context.input(i).shape() != first.shape()) {
      return InvalidArgument("Inputs to operation ", context.node().name(), " of type ", context.node().op(),
                             " must have the same size and shape.  Input 0: ", first.shape(), " != input ", i, ": ",
                             context.input(i).shape());
    }
  }
  if (count == 1) {
    context.set_output(0, context.TakeInput(0));
    return absl::OkStatus();
  }
  if (first.dtype() == kVariant) return SumVariants(context);
  ASSIGN_OR_RETURN(Tensor * out, context.ForwardOrAllocate({0}, 0, first.shape()));
  const DType dtype = out->dtype();
  const double nanos = 0.2 * count;
  if (IsHalfPrecision(dtype)) {
    context.ParallelFor(first.num_elements(), 2 * nanos, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kBlock) {
        SumHalfBlock(context, dtype, i, std::min(kBlock, end - i), out->raw());
      }
    });
    return absl::OkStatus();
  }
  return Dispatch(Types<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
                        std::complex<float>, std::complex<double>>(),
                  dtype, [&]<typename T>() {
                    T* const sum = out->mutable_data<T>();
                    context.ParallelFor(first.num_elements(), nanos, [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; i += kBlock) {
                        SumBlock<T>(context, i, std::min(kBlock, end - i), sum + i);
                      }
                    });
                    return absl::OkStatus();
                  });
}

absl::Status AddNGradient(GradientContext& g) {
  const Output dy = g.dy();
  for (int i = 0; i < g.node()->num_inputs(); ++i) g.set_dx(i, dy);
  return absl::OkStatus();
}

const OpRegistration kAddNOps[] = {
    Op("AddN")
        .Input("inputs: N * T")
        .Output("sum: T")
        .Attr("N: int >= 1")
        .Attr("T: {numbertype, variant}")
        .Commutative()
        .Aggregate()
        .Shape(shapes::MergeInputs)
        .Compute(ComputeSum)
        .Gradient(AddNGradient),
    Op("AccumulateNV2")
        .Input("inputs: N * T")
        .Output("sum: T")
        .Attr("N: int >= 1")
        .Attr("T: numbertype")
        .Attr("shape: shape")
        .Commutative()
        .Aggregate()
        .Shape(shapes::FromShapeAttr)
        .Compute(ComputeSum)
        .Gradient(AddNGradient),
};

}  // namespace

Output AddN(const Scope& s, const std::vector<Output>& inputs) { return s.Add("AddN", {inputs}); }
Output AccumulateN(const Scope& s, const std::vector<Output>& inputs, const PartialShape& shape) {
  return s.Add("AccumulateNV2", {inputs}, {{"shape", shape}});
}

}  // namespace thalweg
