// SPDX-License-Identifier: Apache-2.0
// Cumsum, Cumprod: running sums and products along one axis. Exclusive leaves
// out the element itself, reverse starts from the end.
#include <cmath>
#include <limits>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/ops/support/numbers.h"

namespace thalweg {
namespace {

struct RunningSum {
  template <typename T>
  static T First() {
    return T(0);
  }
  template <typename T>
  static T Next(T a, T b) {
    return WrapAdd(a, b);
  }
};
struct RunningProd {
  template <typename T>
  static T First() {
    return T(1);
  }
  template <typename T>
  static T Next(T a, T b) {
    return WrapMul(a, b);
  }
};
// log(exp(a) + exp(b)); of nothing it is log(0).
struct RunningLogSumExp {
  template <typename T>
  static T First() {
    return -std::numeric_limits<T>::infinity();
  }
  template <typename T>
  static T Next(T a, T b) {
    const T low = a < b ? a : b, high = a < b ? b : a;
    return high == low && std::isinf(high) ? high : high + std::log1p(std::exp(low - high));
  }
};

using SummedTypes = Types<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
                          std::complex<float>, std::complex<double>>;

// One [length, inner] block; row i of y depends on rows up to i of x. y may not
// be x.
template <typename T, typename S>
void Scan(const T* x, T* y, int64_t length, int64_t inner, bool exclusive, bool reverse) {
  const int64_t step = reverse ? -inner : inner, first = reverse ? (length - 1) * inner : 0;
  for (int64_t i = 0; i < inner; ++i) y[first + i] = exclusive ? S::template First<T>() : x[first + i];
  for (int64_t r = 1; r < length; ++r) {
    const int64_t at = first + r * step;
    const T* const term = x + (exclusive ? at - step : at);
    for (int64_t i = 0; i < inner; ++i) y[at + i] = S::Next(y[at - step + i], term[i]);
  }
}

template <typename S, typename List>
class ScanKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(exclusive_, init.Attr<bool>("exclusive"));
    ASSIGN_OR_RETURN(reverse_, init.Attr<bool>("reverse"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    const Tensor& axis_arg = context.input(1);
    if (axis_arg.rank() != 0) return InvalidArgument("ScanOp: axis must be a scalar, not ", axis_arg.shape());
    int64_t axis = axis_arg.dtype() == kInt32 ? axis_arg.scalar<int32_t>() : axis_arg.scalar<int64_t>();
    if (axis < -x.rank() || axis >= x.rank()) {
      return InvalidArgument("ScanOp: Expected scan axis in the range [", -x.rank(), ", ", x.rank(), "), but got ",
                             axis);
    }
    if (axis < 0) axis += x.rank();
    ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, x.shape()));
    if (x.num_elements() == 0) return absl::OkStatus();
    const int a = static_cast<int>(axis);
    const int64_t outer = x.shape().Product(0, a), length = x.dim(a), inner = x.shape().Product(a + 1, x.rank());
    if (!IsHalfPrecision(x.dtype())) {
      return Dispatch(List(), x.dtype(), [&]<typename T>() {
        ScanAll(context, x.data<T>(), y->mutable_data<T>(), outer, length, inner);
        return absl::OkStatus();
      });
    }
    ASSIGN_OR_RETURN(Tensor wide_x, context.AllocateTemporary(kFloat, x.shape()));
    ASSIGN_OR_RETURN(Tensor wide_y, context.AllocateTemporary(kFloat, x.shape()));
    HalfToFloat(x.dtype(), x.raw(), wide_x.mutable_data<float>(), x.num_elements());
    ScanAll(context, wide_x.data<float>(), wide_y.mutable_data<float>(), outer, length, inner);
    FloatToHalf(y->dtype(), wide_y.data<float>(), y->raw(), x.num_elements());
    return absl::OkStatus();
  }

 private:
  template <typename T>
  void ScanAll(KernelContext& context, const T* x, T* y, int64_t outer, int64_t length, int64_t inner) const {
    context.ParallelFor(
        outer, static_cast<double>(length) * static_cast<double>(inner), [&](int64_t begin, int64_t end) {
          for (int64_t o = begin; o < end; ++o) {
            Scan<T, S>(x + o * length * inner, y + o * length * inner, length, inner, exclusive_, reverse_);
          }
        });
  }

  bool exclusive_ = false;
  bool reverse_ = false;
};

absl::Status CumsumGradient(GradientContext& g) {
  ASSIGN_OR_RETURN(const bool exclusive, g.Attr<bool>("exclusive"));
  ASSIGN_OR_RETURN(const bool reverse, g.Attr<bool>("reverse"));
  g.set_dx(0, Cumsum(g.scope(), g.dy(), g.input(1), {.exclusive = exclusive, .reverse = !reverse}));
  return absl::OkStatus();
}

// sum_j>=i y_j dy_j / x_i; as in TensorFlow, not for x that have a zero.
absl::Status CumprodGradient(GradientContext& g) {
  const Scope& s = g.scope();
  ASSIGN_OR_RETURN(const bool exclusive, g.Attr<bool>("exclusive"));
  ASSIGN_OR_RETURN(const bool reverse, g.Attr<bool>("reverse"));
  const Output products = Mul(s, Conj(s, g.output(0)), g.dy());
  const Output sums = Cumsum(s, products, g.input(1), {.exclusive = exclusive, .reverse = !reverse});
  g.set_dx(0, DivNoNan(s, sums, Conj(s, g.input(0))));
  return absl::OkStatus();
}

// Computes sum_j>=i dy_j exp(x_i - y_j) in logarithms, separately for positive and negative dy,
// because the terms may differ by orders of magnitude.
absl::Status CumulativeLogsumexpGradient(GradientContext& g) {
  const Scope& s = g.scope();
  ASSIGN_OR_RETURN(const bool exclusive, g.Attr<bool>("exclusive"));
  ASSIGN_OR_RETURN(const bool reverse, g.Attr<bool>("reverse"));
  const Output x = g.input(0), y = g.output(0), dy = g.dy();
  if (!dy) return s.status();
  const Output zero = ScalarConst(s, dy.dtype(), 0);
  const Output lowest = ScalarConst(s, dy.dtype(), x.dtype() == kDouble ? -1e300 : x.dtype() == kHalf ? -65504 : -3e38);
  const auto part = [&](Output magnitude) {
    const Output positive = Greater(s, magnitude, zero);
    const Output safe = Select(s, positive, magnitude, Output(s.Add("OnesLike", {magnitude})));
    const Output logs = Select(s, positive, Sub(s, Log(s, safe), y), lowest);
    const Output sums =
        s.Add("CumulativeLogsumexp", {logs, g.input(1)}, {{"exclusive", exclusive}, {"reverse", !reverse}});
    return Exp(s, Add(s, sums, x));
  };
  g.set_dx(0, Sub(s, part(dy), part(Neg(s, dy))));
  return absl::OkStatus();
}

Op Cumulative(absl::string_view name, absl::string_view types) {
  return Op(name)
      .Input("x: T")
      .Input("axis: Tidx")
      .Output("out: T")
      .Attr("exclusive: bool = false")
      .Attr("reverse: bool = false")
      .Attr(types)
      .Attr("Tidx: {int32, int64} = DT_INT32")
      .Shape(shapes::LikeInput0);
}

const OpRegistration kCumulativeOps[] = {
    Cumulative("Cumsum", "T: numbertype").Kernel<ScanKernel<RunningSum, SummedTypes>>().Gradient(CumsumGradient),
    Cumulative("Cumprod", "T: numbertype").Kernel<ScanKernel<RunningProd, SummedTypes>>().Gradient(CumprodGradient),
    Cumulative("CumulativeLogsumexp", "T: {bfloat16, half, float, double}")
        .Kernel<ScanKernel<RunningLogSumExp, Types<float, double>>>()
        .Gradient(CumulativeLogsumexpGradient),
};

}  // namespace

Output Cumsum(const Scope& s, Output x, const IntArg& axis, const CumulativeOptions& options) {
  return s.Add("Cumsum", {x, axis.AsTensor(s, "axis")},
               {{"exclusive", options.exclusive}, {"reverse", options.reverse}});
}
Output Cumprod(const Scope& s, Output x, const IntArg& axis, const CumulativeOptions& options) {
  return s.Add("Cumprod", {x, axis.AsTensor(s, "axis")},
               {{"exclusive", options.exclusive}, {"reverse", options.reverse}});
}

}  // namespace thalweg
