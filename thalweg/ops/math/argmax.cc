// SPDX-License-Identifier: Apache-2.0
// ArgMax, ArgMin: where along one dimension the largest (smallest) element is;
// the first of equal ones. NaN is never it, unless there is nothing else.
#include <algorithm>
#include <limits>
#include <optional>

#include "thalweg/base/simd.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"
#include "thalweg/ops/support/elementwise.h"

namespace thalweg {
namespace {

struct Larger {
  template <typename T>
  static bool Better(T a, T b) {
    return a > b;
  }
  template <typename T>
  static T Worst() {
    return std::numeric_limits<T>::has_infinity ? T(-std::numeric_limits<T>::infinity())
                                                : std::numeric_limits<T>::lowest();
  }
};
struct Smaller {
  template <typename T>
  static bool Better(T a, T b) {
    return a < b;
  }
  template <typename T>
  static T Worst() {
    return std::numeric_limits<T>::has_infinity ? T(std::numeric_limits<T>::infinity()) : std::numeric_limits<T>::max();
  }
};

template <typename T, typename C>
int64_t BestOfRow(const T* x, int64_t n) {
  T best = C::template Worst<T>();
  int64_t at = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (C::Better(x[i], best)) {
      best = x[i];
      at = i;
    }
  }
  return at;
}

// The best value first, which vectorizes, then where it is.
template <typename T, typename C>
THALWEG_SIMD int64_t BestOfLongRow(const T* x, int64_t n) {
  constexpr int kLanes = 32;
  T lanes[kLanes];
  for (int l = 0; l < kLanes; ++l) lanes[l] = C::template Worst<T>();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] = C::Better(x[i + l], lanes[l]) ? x[i + l] : lanes[l];
  }
  T best = C::template Worst<T>();
  for (; i < n; ++i) best = C::Better(x[i], best) ? x[i] : best;
  for (int l = 0; l < kLanes; ++l) best = C::Better(lanes[l], best) ? lanes[l] : best;
  for (i = 0; i < n; ++i) {
    if (x[i] == best) return i;
  }
  return 0;
}

// One row of [reduced, inner] against the best so far. Positions are of the
// elements' size, which vectorizes.
template <typename T, typename C, typename Position>
[[gnu::always_inline]] inline void UpdateBest(const T* x, int64_t inner, Position row, T* best, Position* at) {
  for (int64_t i = 0; i < inner; ++i) {
    const bool better = C::Better(x[i], best[i]);
    at[i] = better ? row : at[i];
    best[i] = better ? x[i] : best[i];
  }
}
template <typename T, typename C, typename Position>
THALWEG_SIMD void HotUpdateBest(const T* x, int64_t inner, Position row, T* best, Position* at) {
  UpdateBest<T, C, Position>(x, inner, row, best, at);
}

// [reduced, inner] -> [inner], in strips of columns.
template <typename T, typename C>
void BestOfColumns(const T* x, int64_t reduced, int64_t inner, int64_t* out) {
  using Position = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  constexpr int64_t kStrip = 512;
  T best[kStrip];
  Position at[kStrip];
  for (int64_t begin = 0; begin < inner; begin += kStrip) {
    const int64_t width = std::min(kStrip, inner - begin);
    std::fill_n(best, width, C::template Worst<T>());
    std::fill_n(at, width, Position{0});
    for (int64_t r = 0; r < reduced; ++r) {
      if constexpr (kIsHot<T>) {
        HotUpdateBest<T, C, Position>(x + r * inner + begin, width, static_cast<Position>(r), best, at);
      } else {
        UpdateBest<T, C, Position>(x + r * inner + begin, width, static_cast<Position>(r), best, at);
      }
    }
    std::copy_n(at, width, out + begin);
  }
}

template <typename C>
class ArgExtremumKernel : public Kernel {
 public:
  absl::Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& dimension = context.input(1);
    if (dimension.num_elements() != 1 || dimension.rank() != 0) {
      return InvalidArgument("dim must be a scalar, but received tensor of shape: ", dimension.shape());
    }
    int64_t axis = 0;
    RETURN_IF_ERROR(Dispatch(Types<int16_t, int32_t, int64_t>(), dimension.dtype(), [&]<typename T>() {
      axis = dimension.scalar<T>();
      return absl::OkStatus();
    }));
    if (axis < -in.rank() || axis >= in.rank()) {
      return InvalidArgument("Expected dimension in the range [", -in.rank(), ", ", in.rank(), "), but got ", axis);
    }
    if (axis < 0) axis += in.rank();
    if (in.dim(axis) == 0) {
      return InvalidArgument("Reduction axis ", axis, " is empty in shape ", in.shape());
    }
    Shape shape = in.shape();
    shape.RemoveDim(static_cast<int>(axis));
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, shape));
    if (out->num_elements() == 0) return absl::OkStatus();
    Tensor places = *out;
    if (out->dtype() != kInt64) {
      ASSIGN_OR_RETURN(places, context.AllocateTemporary(kInt64, shape));
    }
    RETURN_IF_ERROR(FindIn(context, in, static_cast<int>(axis), places.mutable_data<int64_t>()));
    if (out->dtype() == kInt64) return absl::OkStatus();
    return Dispatch(Types<int32_t, int16_t, uint16_t>(), out->dtype(), [&]<typename Index>() {
      std::copy_n(places.data<int64_t>(), places.num_elements(), out->mutable_data<Index>());
      return absl::OkStatus();
    });
  }

 private:
  static absl::Status FindIn(KernelContext& context, const Tensor& in, int axis, int64_t* out) {
    if (IsHalfPrecision(in.dtype())) {
      ASSIGN_OR_RETURN(Tensor wide, context.AllocateTemporary(kFloat, in.shape()));
      HalfToFloat(in.dtype(), in.raw(), wide.mutable_data<float>(), in.num_elements());
      return Find<float>(context, wide, axis, out);
    }
    if (in.dtype() == kBool) return Find<uint8_t>(context, in.Bitcast(kUint8), axis, out);
    return Dispatch(Reals(), in.dtype(), [&]<typename T>() { return Find<T>(context, in, axis, out); });
  }

  template <typename T>
  static absl::Status Find(KernelContext& context, const Tensor& in, int axis, int64_t* out) {
    const int64_t outer = in.shape().Product(0, axis), reduced = in.dim(axis);
    const int64_t inner = in.shape().Product(axis + 1, in.rank());
    const T* x = in.data<T>();
    if (inner == 1) {
      context.ParallelFor(outer, static_cast<double>(reduced), [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o) {
          const T* row = x + o * reduced;
          if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int32_t>) {
            out[o] = reduced < 64 ? BestOfRow<T, C>(row, reduced) : BestOfLongRow<T, C>(row, reduced);
          } else {
            out[o] = BestOfRow<T, C>(row, reduced);
          }
        }
      });
      return absl::OkStatus();
    }
    context.ParallelFor(outer, static_cast<double>(reduced) * static_cast<double>(inner),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t o = begin; o < end; ++o) {
                            BestOfColumns<T, C>(x + o * reduced * inner, reduced, inner, out + o * inner);
                          }
                        });
    return absl::OkStatus();
  }
};

absl::Status ArgShape(ShapeContext& c) {
  RETURN_IF_ERROR(c.RequireScalar(1));
  const PartialShape& in = c.input(0);
  if (!in.has_rank()) return absl::OkStatus();
  if (in.rank() <= 1) {
    c.set_output(0, Shape());
    return absl::OkStatus();
  }
  const std::optional<Tensor> dimension = c.Constant(1);
  if (!dimension.has_value() || dimension->num_elements() != 1) {
    c.set_output(0, PartialShape::OfRank(in.rank() - 1));
    return absl::OkStatus();
  }
  int64_t axis = 0;
  RETURN_IF_ERROR(Dispatch(Types<int16_t, int32_t, int64_t>(), dimension->dtype(), [&]<typename T>() {
    axis = dimension->scalar<T>();
    return absl::OkStatus();
  }));
  if (axis < -in.rank() || axis >= in.rank()) {
    return InvalidArgument("Dimension (", axis, ") must be in the range [", -in.rank(), ", ", in.rank(), ")");
  }
  Dims dims(in.dims().begin(), in.dims().end());
  dims.erase(dims.begin() + (axis < 0 ? axis + in.rank() : axis));
  c.set_output(0, PartialShape(std::move(dims)));
  return absl::OkStatus();
}

const OpRegistration kArgmaxOps[] = {
    Op("ArgMax")
        .Input("input: T")
        .Input("dimension: Tidx")
        .Output("output: output_type")
        .Attr("T: {realnumbertype, quantizedtype, bool}")
        .Attr("Tidx: {int16, int32, int64} = DT_INT32")
        .Attr("output_type: {int16, uint16, int32, int64} = DT_INT64")
        .Shape(ArgShape)
        .Kernel<ArgExtremumKernel<Larger>>()
        .NotDifferentiable(),
    Op("ArgMin")
        .Input("input: T")
        .Input("dimension: Tidx")
        .Output("output: output_type")
        .Attr("T: {realnumbertype, quantizedtype, bool}")
        .Attr("Tidx: {int32, int64} = DT_INT32")
        .Attr("output_type: {int32, int64} = DT_INT64")
        .Shape(ArgShape)
        .Kernel<ArgExtremumKernel<Smaller>>()
        .NotDifferentiable(),
};

}  // namespace

Output ArgMax(const Scope& s, Output input, const IntArg& dimension, const ArgMaxOptions& options) {
  return s.Add("ArgMax", {input, dimension.AsTensor(s, "dimension")}, {{"output_type", options.output_type}});
}
Output ArgMin(const Scope& s, Output input, const IntArg& dimension, const ArgMaxOptions& options) {
  return s.Add("ArgMin", {input, dimension.AsTensor(s, "dimension")}, {{"output_type", options.output_type}});
}

}  // namespace thalweg
