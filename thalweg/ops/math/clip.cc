// SPDX-License-Identifier: Apache-2.0
// ClipByValue: elements of t brought into [clip_value_min, clip_value_max],
// which are scalars or have t's shape. Of complex numbers, both parts are.
#include <algorithm>
#include <complex>

#include "thalweg/base/simd.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"

namespace thalweg {
namespace {

// The lower limit wins where they cross.
template <typename T>
inline T Clip(T x, T l, T h) {
  const T below = x > h ? h : x;
  return below < l ? l : below;
}
template <typename T>
std::complex<T> Clip(std::complex<T> x, std::complex<T> l, std::complex<T> h) {
  return {Clip(x.real(), l.real(), h.real()), Clip(x.imag(), l.imag(), h.imag())};
}

// Steps are 0 for scalars, else 1.
template <typename T>
THALWEG_SIMD void ClipLoop(const T* t, const T* low, const T* high, T* out, int64_t n, int64_t low_step,
                           int64_t high_step) {
  const auto clip = [](T x, T l, T h) { return Clip(x, l, h); };
  if (low_step == 0 && high_step == 0) {
    const T l = *low, h = *high;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = clip(t[i], l, h);
    return;
  }
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = clip(t[i], low[i * low_step], high[i * high_step]);
}

absl::Status Compute(KernelContext& context) {
  const Tensor& t = context.input(0);
  const Tensor& low = context.input(1);
  const Tensor& high = context.input(2);
  const auto fits = [&](const Tensor& limit) { return limit.rank() == 0 || limit.shape() == t.shape(); };
  if (!fits(low) || !fits(high)) {
    return InvalidArgument("clip_value_min and clip_value_max must be either of the same shape as input, or a scalar. ",
                           "input shape: ", t.shape(), "clip_value_min shape: ", low.shape(),
                           "clip_value_max shape: ", high.shape());
  }
  const int64_t low_step = low.rank() == 0 ? 0 : 1, high_step = high.rank() == 0 ? 0 : 1;
  ASSIGN_OR_RETURN(Tensor * out, context.ForwardOrAllocate({0}, 0, t.shape()));
  return Dispatch(NumberTypes(), t.dtype(), [&]<typename T>() {
    const T* const x = t.data<T>();
    const T* const l = low.data<T>();
    const T* const h = high.data<T>();
    T* const y = out->mutable_data<T>();
    context.ParallelFor(t.num_elements(), 0.5, [&](int64_t begin, int64_t end) {
      ClipLoop(x + begin, l + begin * low_step, h + begin * high_step, y + begin, end - begin, low_step, high_step);
    });
    return absl::OkStatus();
  });
}

absl::Status Gradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output t = g.input(0), low = g.input(1), high = g.input(2), dy = g.dy();
  const Output below = Less(s, t, low), above = Greater(s, t, high);
  const Output zeros = s.Add("ZerosLike", {dy});
  g.set_dx(0, Select(s, LogicalOr(s, below, above), zeros, dy));
  const Output to_low = Select(s, below, dy, zeros), to_high = Select(s, above, dy, zeros);
  g.set_dx(1, SumBroadcast(s, t, low, dy, to_low).second);
  g.set_dx(2, SumBroadcast(s, t, high, dy, to_high).second);
  return absl::OkStatus();
}

const OpRegistration kClipByValue = Op("ClipByValue")
                                        .Input("t: T")
                                        .Input("clip_value_min: T")
                                        .Input("clip_value_max: T")
                                        .Output("output: T")
                                        .Attr("T: numbertype")
                                        .Shape(shapes::LikeInput0)
                                        .Compute(Compute)
                                        .Gradient(Gradient);

}  // namespace

Output ClipByValue(const Scope& s, Output t, Output clip_value_min, Output clip_value_max) {
  return s.Add("ClipByValue", {t, clip_value_min, clip_value_max});
}

}  // namespace thalweg
