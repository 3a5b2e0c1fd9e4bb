// SPDX-License-Identifier: Apache-2.0
// QuantizeAndDequantizeV2, V3 and V4: numbers as they would be after
// quantization to `num_bits` and back. The range is given or that of the input;
// with an axis, every slice along it has its own. It is widened on one side so
// that 0 stays 0.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

// The slices of dimension `axis`: element i belongs to slice (i / inner) % count.
struct Slices {
  int64_t count = 1;
  int64_t inner = 1;
};
absl::StatusOr<Slices> SlicesOf(const Tensor& t, int64_t axis) {
  if (axis < 0) return Slices{1, std::max<int64_t>(t.num_elements(), 1)};
  if (axis >= t.rank()) {
    return InvalidArgument("Axis requested is larger than input dimensions. Axis: ", axis,
                           " Input Dimensions: ", t.rank());
  }
  return Slices{t.dim(static_cast<int>(axis)), t.shape().Product(static_cast<int>(axis) + 1, t.rank())};
}

// The ends of every slice from inputs `first` and the next.
absl::Status CheckEnds(KernelContext& c, int first, int64_t axis, int64_t count) {
  for (int i = first; i < first + 2; ++i) {
    const Tensor& t = c.input(i);
    const char* const name = i == first ? "input_min" : "input_max";
    if (axis < 0 ? t.num_elements() != 1 || t.rank() > 1 : t.rank() != 1 || t.dim(0) != count) {
      return InvalidArgument(name, " must have ", count, " elements, one for every slice, got shape ", t.shape());
    }
  }
  return absl::OkStatus();
}

template <typename T>
struct Step {
  T min, max, scale, inverse;
};

template <typename T>
Step<T> StepOf(T min, T max, bool is_signed, int bits, bool narrow) {
  const double lowest = is_signed ? -std::ldexp(1.0, bits - 1) + (narrow ? 1 : 0) : 0;
  const T low = static_cast<T>(lowest), high = static_cast<T>(std::ldexp(1.0, is_signed ? bits - 1 : bits) - 1);
  constexpr T kMax = std::numeric_limits<T>::max();
  const T from_min = low * min > 0 ? low / min : kMax, from_max = high * max > 0 ? high / max : kMax;
  Step<T> step{min, max};
  if (from_min < from_max) {
    step.scale = from_min;
    step.inverse = min / low;
    step.max = high * step.inverse;
  } else {
    step.scale = from_max;
    step.inverse = max / high;
    step.min = low * step.inverse;
  }
  return step;
}

class QuantizeAndDequantizeKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    const auto& def = init.node().def();
    ASSIGN_OR_RETURN(signed_, init.Attr<bool>("signed_input"));
    ASSIGN_OR_RETURN(range_given_, init.Attr<bool>("range_given"));
    if (HasAttr(def, "input_min")) {  // the first version, which has its range in attributes
      ASSIGN_OR_RETURN(ends_[0], init.Attr<float>("input_min"));
      ASSIGN_OR_RETURN(ends_[1], init.Attr<float>("input_max"));
    } else {
      ASSIGN_OR_RETURN(narrow_, init.Attr<bool>("narrow_range"));
      ASSIGN_OR_RETURN(axis_, init.Attr<int64_t>("axis"));
    }
    if (axis_ < -1) return InvalidArgument("Axis must be at least -1. Found ", axis_);
    if (HasAttr(def, "round_mode")) {
      ASSIGN_OR_RETURN(const std::string mode, init.Attr<std::string>("round_mode"));
      half_up_ = mode == "HALF_UP";
    }
    if (!HasAttr(def, "num_bits")) return absl::OkStatus();
    ASSIGN_OR_RETURN(bits_, init.Attr<int64_t>("num_bits"));
    return CheckBits(bits_);
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor input = c.input(0);
    int64_t bits = bits_;
    if (c.num_inputs() == 4) {
      if (c.input(3).num_elements() != 1) {
        return InvalidArgument("num_bits must be a scalar, got shape ", c.input(3).shape());
      }
      bits = c.input(3).scalar<int32_t>();
      RETURN_IF_ERROR(CheckBits(bits));
    }
    ASSIGN_OR_RETURN(const Slices slices, SlicesOf(input, axis_));
    if (range_given_ && c.num_inputs() > 1) RETURN_IF_ERROR(CheckEnds(c, 1, axis_, slices.count));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, input.shape()));
    if (!range_given_ && input.num_elements() == 0) return absl::OkStatus();  // slices of nothing may be many
    return Dispatch(Types<float, double>(), input.dtype(), [&]<typename T>() -> absl::Status {
      const T* const x = input.data<T>();
      T* const y = out->mutable_data<T>();
      const int64_t n = input.num_elements();
      std::vector<T> min(slices.count), max(slices.count);
      if (range_given_ && c.num_inputs() == 1) {
        min[0] = static_cast<T>(ends_[0]);
        max[0] = static_cast<T>(ends_[1]);
      } else if (range_given_) {
        std::copy_n(c.input(1).data<T>(), slices.count, min.begin());
        std::copy_n(c.input(2).data<T>(), slices.count, max.begin());
      } else {
        std::fill(min.begin(), min.end(), std::numeric_limits<T>::max());
        std::fill(max.begin(), max.end(), std::numeric_limits<T>::lowest());
        for (int64_t i = 0; i < n; ++i) {
          const int64_t k = i / slices.inner % slices.count;
          min[k] = std::min(min[k], x[i]);
          max[k] = std::max(max[k], x[i]);
        }
      }
      std::vector<Step<T>> steps;
      for (int64_t k = 0; k < slices.count; ++k) {
        if (range_given_ && min[k] > max[k]) {
          return InvalidArgument("Invalid range: input_min ", min[k], " > input_max ", max[k]);
        }
        steps.push_back(StepOf<T>(min[k], max[k], signed_, static_cast<int>(bits), narrow_));
      }
      for (int64_t i = 0; i < n; ++i) {
        const Step<T>& step = steps[i / slices.inner % slices.count];
        const T scaled = (range_given_ ? std::max(std::min(x[i], step.max), step.min) : x[i]) * step.scale;
        y[i] = (half_up_ ? std::floor(scaled + T(0.5)) : std::nearbyint(scaled)) * step.inverse;
      }
      return absl::OkStatus();
    });
  }

 private:
  absl::Status CheckBits(int64_t bits) const {
    if (bits > 0 && bits < (signed_ ? 62 : 63)) return absl::OkStatus();
    return InvalidArgument("num_bits is out of range: ", bits, " with signed_input ", signed_ ? "true" : "false");
  }

  bool signed_ = true, range_given_ = false, narrow_ = false, half_up_ = false;
  int64_t axis_ = -1, bits_ = 8;
  float ends_[2] = {};
};

// Gradients pass where the input was in the range.
class GradKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(axis_, init.Attr<int64_t>("axis"));
    if (axis_ < -1) return InvalidArgument("Axis must be at least -1. Found ", axis_);
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor dy = c.input(0), input = c.input(1);
    if (dy.shape() != input.shape()) {
      return InvalidArgument("gradient and input must be the same size: ", dy.shape(), " vs. ", input.shape());
    }
    ASSIGN_OR_RETURN(const Slices slices, SlicesOf(input, axis_));
    RETURN_IF_ERROR(CheckEnds(c, 2, axis_, slices.count));
    const Tensor min = c.input(2), max = c.input(3);
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, input.shape()));
    for (int i = 1; i < 3; ++i) c.set_output(i, Tensor::Zeros(input.dtype(), c.input(1 + i).shape()));
    return Dispatch(Types<float, double>(), input.dtype(), [&]<typename T>() {
      for (int64_t i = 0; i < input.num_elements(); ++i) {
        const int64_t k = i / slices.inner % slices.count;
        const T x = input.data<T>()[i];
        const bool inside = x >= min.data<T>()[k] && x <= max.data<T>()[k];
        out->mutable_data<T>()[i] = inside ? dy.data<T>()[i] : T(0);
      }
      return absl::OkStatus();
    });
  }

 private:
  int64_t axis_ = -1;
};

absl::Status GradShape(ShapeContext& c) {
  for (int i = 0; i < 3; ++i) c.set_output(i, c.input(1 + i));
  return absl::OkStatus();
}

// The straight-through estimator: ignores the rounding.
absl::Status StraightThrough(GradientContext& g) {
  g.set_dx(0, g.dy());
  return absl::OkStatus();
}
absl::Status V4Gradient(GradientContext& g) {
  ASSIGN_OR_RETURN(const int64_t axis, g.Attr<int64_t>("axis"));
  Node* const node =
      g.scope().Add("QuantizeAndDequantizeV4Grad", {g.dy(), g.input(0), g.input(1), g.input(2)}, {{"axis", axis}});
  for (int i = 0; node != nullptr && i < 3; ++i) g.set_dx(i, node->out(i));
  return absl::OkStatus();
}

constexpr char kFloatTypes[] = "T: {bfloat16, half, float, double}";

Op Quantized(const char* version, GradientFn gradient) {
  const bool v3 = version[1] == '3';
  Op op(absl::StrCat("QuantizeAndDequantize", version));
  op.Input("input: T").Input("input_min: T").Input("input_max: T");
  if (v3) op.Input("num_bits: int32");
  op.Output("output: T").Attr("signed_input: bool = true");
  if (!v3) op.Attr("num_bits: int = 8");
  op.Attr(v3 ? "range_given: bool = true" : "range_given: bool = false").Attr(kFloatTypes);
  if (!v3) op.Attr("round_mode: {'HALF_TO_EVEN', 'HALF_UP'} = 'HALF_TO_EVEN'");
  return op.Attr("narrow_range: bool = false")
      .Attr("axis: int = -1")
      .Shape(shapes::LikeInput0)
      .Kernel<QuantizeAndDequantizeKernel>()
      .Gradient(gradient);
}

const OpRegistration kQuantizeAndDequantizeOps[] = {
    Op("QuantizeAndDequantize")
        .Input("input: T")
        .Output("output: T")
        .Attr("signed_input: bool = true")
        .Attr("num_bits: int = 8")
        .Attr("range_given: bool = false")
        .Attr("input_min: float = 0")
        .Attr("input_max: float = 0")
        .Attr(kFloatTypes)
        .Shape(shapes::LikeInput0)
        .Kernel<QuantizeAndDequantizeKernel>()
        .Gradient(StraightThrough),
    Quantized("V2", StraightThrough),
    Quantized("V3", StraightThrough),
    Quantized("V4", V4Gradient),
    Op("QuantizeAndDequantizeV4Grad")
        .Input("gradients: T")
        .Input("input: T")
        .Input("input_min: T")
        .Input("input_max: T")
        .Output("input_backprop: T")
        .Output("input_min_backprop: T")
        .Output("input_max_backprop: T")
        .Attr(kFloatTypes)
        .Attr("axis: int = -1")
        .Shape(GradShape)
        .Kernel<GradKernel>(),
};

}  // namespace
}  // namespace thalweg
