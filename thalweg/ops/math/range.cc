// SPDX-License-Identifier: Apache-2.0
// Sequences of numbers.
//
//   Range:    start, start + delta, ... as long as it is before limit
//   LinSpace: num values from start to stop, both included, at equal distances
#include <cmath>
#include <limits>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

using RangeTypes = Types<int32_t, int64_t, float, double, Half, BFloat16, int8_t, int16_t, uint16_t, uint32_t>;

template <typename T>
std::string Text(T value) {
  if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else {
    return absl::StrCat(static_cast<double>(value));
  }
}

template <typename T>
absl::StatusOr<int64_t> RangeSize(T start, T limit, T delta) {
  if (delta == T(0)) return InvalidArgument("Requires delta != 0: ", Text(delta));
  if (delta > T(0) && start > limit) {
    return InvalidArgument("Requires start <= limit when delta > 0: ", Text(start), "/", Text(limit));
  }
  if (delta < T(0) && start < limit) {
    return InvalidArgument("Requires start >= limit when delta < 0: ", Text(start), "/", Text(limit));
  }
  if constexpr (std::is_integral_v<T>) {
    // Unsigned arithmetic wraps to the right distance.
    const bool up = delta > 0;
    const uint64_t distance = up ? static_cast<uint64_t>(limit) - static_cast<uint64_t>(start)
                                 : static_cast<uint64_t>(start) - static_cast<uint64_t>(limit);
    const uint64_t step = up ? static_cast<uint64_t>(delta) : -static_cast<uint64_t>(delta);
    const uint64_t size = distance / step + (distance % step != 0 ? 1 : 0);
    if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return InvalidArgument("Requires ((limit - start) / delta) <= ", std::numeric_limits<int64_t>::max());
    }
    return static_cast<int64_t>(size);
  } else {
    const double size =
        std::ceil(std::abs((static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta)));
    if (!(size < static_cast<double>(std::numeric_limits<int64_t>::max()))) {
      return InvalidArgument("Requires ((limit - start) / delta) <= ", std::numeric_limits<int64_t>::max());
    }
    return static_cast<int64_t>(size);
  }
}

absl::Status ComputeRange(KernelContext& c) {
  for (int i = 0; i < 3; ++i) {
    if (c.input(i).num_elements() != 1 || c.input(i).rank() > 1) {
      static constexpr const char* kNames[] = {"start", "limit", "delta"};
      return InvalidArgument(kNames[i], " must be a scalar, not shape ", c.input(i).shape());
    }
  }
  return Dispatch(RangeTypes(), c.input(0).dtype(), [&]<typename T>() -> absl::Status {
    const T start = *c.input(0).data<T>();
    const T delta = *c.input(2).data<T>();
    ASSIGN_OR_RETURN(const int64_t size, RangeSize<T>(start, *c.input(1).data<T>(), delta));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape({size})));
    T* const to = out->mutable_data<T>();
    for (int64_t i = 0; i < size; ++i) to[i] = static_cast<T>(start + static_cast<T>(i) * delta);
    return absl::OkStatus();
  });
}

absl::Status RangeShape(ShapeContext& c) {
  for (int i = 0; i < 3; ++i) RETURN_IF_ERROR(c.RequireScalar(i));
  const std::optional<Tensor> start = c.Constant(0), limit = c.Constant(1), delta = c.Constant(2);
  if (!start.has_value() || !limit.has_value() || !delta.has_value()) {
    c.set_output(0, {PartialShape::kUnknown});
    return absl::OkStatus();
  }
  return Dispatch(RangeTypes(), start->dtype(), [&]<typename T>() -> absl::Status {
    ASSIGN_OR_RETURN(const int64_t size, RangeSize<T>(*start->data<T>(), *limit->data<T>(), *delta->data<T>()));
    c.set_output(0, {size});
    return absl::OkStatus();
  });
}

absl::Status ComputeLinSpace(KernelContext& c) {
  ASSIGN_OR_RETURN(const int64_t num, ReadScalar(c.input(2), "num"));
  if (c.input(0).rank() != 0) return InvalidArgument("start must be a scalar, not shape ", c.input(0).shape());
  if (c.input(1).rank() != 0) return InvalidArgument("stop must be a scalar, not shape ", c.input(1).shape());
  if (num <= 0) return InvalidArgument("Requires num > 0: ", num);
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, Shape({num})));
  return Dispatch(FloatTypes(), out->dtype(), [&]<typename T>() -> absl::Status {
    const T start = *c.input(0).data<T>();
    const T stop = *c.input(1).data<T>();
    T* const to = out->mutable_data<T>();
    to[0] = start;
    if (num == 1) return absl::OkStatus();
    const T step = static_cast<T>((stop - start) / static_cast<T>(num - 1));
    for (int64_t i = 1; i < num - 1; ++i) to[i] = static_cast<T>(start + step * static_cast<T>(i));
    to[num - 1] = stop;
    return absl::OkStatus();
  });
}

absl::Status LinSpaceShape(ShapeContext& c) {
  for (int i = 0; i < 3; ++i) RETURN_IF_ERROR(c.RequireScalar(i));
  const std::optional<Dims> num = ConstantIntegers(c, 2);
  if (num.has_value() && (*num)[0] <= 0) return InvalidArgument("Requires num > 0: ", (*num)[0]);
  c.set_output(0, {num.has_value() ? (*num)[0] : PartialShape::kUnknown});
  return absl::OkStatus();
}

const OpRegistration kRangeOps[] = {
    Op("Range")
        .Input("start: Tidx")
        .Input("limit: Tidx")
        .Input("delta: Tidx")
        .Output("output: Tidx")
        .Attr("Tidx: {bfloat16, half, float, double, int8, int16, int32, int64, uint16, uint32} = DT_INT32")
        .Shape(RangeShape)
        .Compute(ComputeRange)
        .NotDifferentiable(),
    Op("LinSpace")
        .Input("start: T")
        .Input("stop: T")
        .Input("num: Tidx")
        .Output("output: T")
        .Attr("T: {bfloat16, half, float, double}")
        .Attr("Tidx: {int32, int64} = DT_INT32")
        .Shape(LinSpaceShape)
        .Compute(ComputeLinSpace)
        .NotDifferentiable(),
};

}  // namespace

Output Range(const Scope& s, const ScalarArg& start, const ScalarArg& limit, const ScalarArg& delta) {
  return s.Add("Range", {start.AsTensor(s, "start"), limit.AsTensor(s, "limit"), delta.AsTensor(s, "delta")});
}
Output LinSpace(const Scope& s, const ScalarArg& start, const ScalarArg& stop, const IntArg& num) {
  return s.Add("LinSpace", {start.AsTensor(s, "start"), stop.AsTensor(s, "stop"), num.AsTensor(s, "num")});
}

}  // namespace thalweg
