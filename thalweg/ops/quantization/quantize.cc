// SPDX-License-Identifier: Apache-2.0
// QuantizeV2 turns floats into integers of few bits, Dequantize turns them back.
// The range [min, max] covers the integers of the type in one of three modes:
// MIN_COMBINED scales it to all of them, MIN_FIRST too but with 0 on a step,
// SCALED keeps 0 at 0. With an axis, every slice along it has its own range.
#include <algorithm>
#include <cmath>
#include <limits>

#include "thalweg/kernel/op.h"

namespace thalweg {
namespace {

enum class Mode { kMinCombined, kMinFirst, kScaled };

// Steps of MIN_FIRST: as many as there are integers.
template <typename T>
struct Steps {
  static constexpr double kCount =
      static_cast<double>(std::numeric_limits<T>::max()) - static_cast<double>(std::numeric_limits<T>::lowest()) + 1;
};
template <typename T>
constexpr float kHalfRange = std::is_signed_v<T> ? static_cast<float>(Steps<T>::kCount / 2) : 0;

template <typename T>
T ToInteger(float value) {
  constexpr double kLow = static_cast<double>(std::numeric_limits<T>::lowest());
  // The largest float that is not beyond the type.
  constexpr double kHigh = sizeof(T) == 4 ? 2147483520.0 : static_cast<double>(std::numeric_limits<T>::max());
  if (std::isnan(value)) return 0;
  return static_cast<T>(std::min(std::max(static_cast<double>(value), kLow), kHigh));
}

class QuantizeKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(const std::string mode, init.Attr<std::string>("mode"));
    mode_ = mode == "MIN_COMBINED" ? Mode::kMinCombined : mode == "MIN_FIRST" ? Mode::kMinFirst : Mode::kScaled;
    ASSIGN_OR_RETURN(narrow_, init.Attr<bool>("narrow_range"));
    ASSIGN_OR_RETURN(axis_, init.Attr<int64_t>("axis"));
    if (axis_ < -1) return InvalidArgument("Axis must be at least -1. Found ", axis_);
    if (init.node().output_type(0) == kBfloat16 && mode_ != Mode::kMinCombined) {
      return InvalidArgument("When output type is bfloat16, Mode string must be 'MIN_COMBINED', is '", mode, "'");
    }
    if (HasAttr(init.node().def(), "round_mode")) {
      ASSIGN_OR_RETURN(const std::string round, init.Attr<std::string>("round_mode"));
      to_even_ = round == "HALF_TO_EVEN";
      if (to_even_ && mode_ != Mode::kScaled) {
        return InvalidArgument("Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED', but mode is '", mode, "'.");
      }
      ASSIGN_OR_RETURN(smallest_, init.Attr<float>("ensure_minimum_range"));
    }
    return absl::OkStatus();
  }

 protected:
  // Slice k: element i belongs to (i / inner) % count.
  struct Slices {
    int64_t count = 1;
    int64_t inner = 1;
  };
  absl::StatusOr<Slices> SlicesOf(KernelContext& c) const {
    const Tensor& t = c.input(0);
    Slices slices{1, std::max<int64_t>(t.num_elements(), 1)};
    if (axis_ >= t.rank()) {
      return InvalidArgument("Axis must be less than input dimension(", t.rank(), "), got ", axis_);
    }
    if (axis_ >= 0) {
      const int axis = static_cast<int>(axis_);
      slices = {t.dim(axis), t.shape().Product(axis + 1, t.rank())};
    }
    for (int i = 1; i < 3; ++i) {
      const Tensor& end = c.input(i);
      if (axis_ < 0 ? end.num_elements() != 1 : end.rank() != 1 || end.dim(0) != slices.count) {
        return InvalidArgument(i == 1 ? "min_range" : "max_range", " must have ", slices.count,
                               " elements, one for every slice, got shape ", end.shape());
      }
    }
    return slices;
  }

  Mode mode_ = Mode::kMinCombined;
  bool narrow_ = false, to_even_ = false;
  int64_t axis_ = -1;
  float smallest_ = 0.01f;
};

class ToIntegersKernel final : public QuantizeKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor x = c.input(0);
    ASSIGN_OR_RETURN(const Slices slices, SlicesOf(c));
    const Shape ends = axis_ < 0 ? Shape() : Shape({slices.count});
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, x.shape()));
    ASSIGN_OR_RETURN(Tensor* const min, c.Allocate(1, ends));
    ASSIGN_OR_RETURN(Tensor* const max, c.Allocate(2, ends));
    for (int64_t k = 0; k < slices.count; ++k) {
      const float low = c.input(1).data<float>()[k], high = c.input(2).data<float>()[k];
      if (!(low <= high)) {
        return InvalidArgument("input_max_range must be larger than input_min_range: ", high, " < ", low);
      }
      // Make the range contain 0, and large enough to distinguish its ends from 0.
      const float epsilon = std::max(1.0f, std::max(std::fabs(low), std::fabs(high))) * smallest_;
      min->mutable_data<float>()[k] = std::min(0.0f, low);
      max->mutable_data<float>()[k] = std::max(0.0f, std::max(high, std::min(0.0f, low) + epsilon));
    }
    return Dispatch(Types<int8_t, uint8_t, int16_t, uint16_t, int32_t>(), StorageType(out->dtype()), [&]<typename T>() {
      for (int64_t k = 0; k < slices.count; ++k) {
        Slice<T>(x.data<float>(), x.num_elements(), slices, k, min->mutable_data<float>()[k],
                 max->mutable_data<float>()[k], static_cast<T*>(out->raw()));
      }
      return absl::OkStatus();
    });
  }

 private:
  template <typename T>
  void Slice(const float* x, int64_t n, const Slices& slices, int64_t k, float& min, float& max, T* y) const {
    constexpr double kLow = static_cast<double>(std::numeric_limits<T>::lowest());
    constexpr double kHigh = static_cast<double>(std::numeric_limits<T>::max());
    float scale = static_cast<float>((kHigh - kLow) / (max - min));
    if (mode_ == Mode::kScaled) {
      const auto low = static_cast<float>(static_cast<int>(kLow) + (narrow_ ? 1 : 0)), high = static_cast<float>(kHigh);
      constexpr float kMax = std::numeric_limits<float>::max();
      scale = std::min(low * min > 0 ? low / min : kMax, high * max > 0 ? high / max : kMax);
      min = low / scale;
      max = high / scale;
    }
    const float steps = static_cast<float>(Steps<T>::kCount);
    const float first_scale = steps / ((max - min) * (steps / (steps - 1)));
    const float first = std::round(min * first_scale) - static_cast<float>(kLow);
    const auto one = [&](float value) {
      if (mode_ == Mode::kMinFirst) return ToInteger<T>(std::round(value * first_scale) - first);
      const float clamped = std::max(std::min(value, max), min);
      if (mode_ == Mode::kMinCombined) return ToInteger<T>(std::round((clamped - min) * scale - kHalfRange<T>));
      return ToInteger<T>(to_even_ ? std::nearbyint(clamped * scale) : std::round(clamped * scale));
    };
    const int64_t step = slices.count * slices.inner;
    for (int64_t begin = k * slices.inner; begin < n; begin += step) {
      for (int64_t i = begin; i < begin + std::min(slices.inner, n - begin); ++i) y[i] = one(x[i]);
    }
  }
};

class ToFloatsKernel final : public QuantizeKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor x = c.input(0);
    ASSIGN_OR_RETURN(const Slices slices, SlicesOf(c));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, x.shape()));
    return Dispatch(Types<int8_t, uint8_t, int16_t, uint16_t, int32_t>(), StorageType(x.dtype()), [&]<typename T>() {
      constexpr double kLow = static_cast<double>(std::numeric_limits<T>::lowest());
      constexpr double kHigh = static_cast<double>(std::numeric_limits<T>::max());
      const T* const in = static_cast<const T*>(x.raw());
      for (int64_t i = 0; i < x.num_elements(); ++i) {
        const int64_t k = i / slices.inner % slices.count;
        const float min = c.input(1).data<float>()[k], max = c.input(2).data<float>()[k];
        float y;
        if (mode_ == Mode::kMinCombined) {
          const float scale = (max - min) / static_cast<float>(kHigh - kLow);
          y = (static_cast<float>(in[i]) + kHalfRange<T>)*scale + min;
        } else if (mode_ == Mode::kMinFirst) {
          const float scale = (max - min) / static_cast<float>(Steps<T>::kCount - 1);
          const double first = max == min ? min : std::round(min / scale) * static_cast<double>(scale);
          y = static_cast<float>(first + (static_cast<double>(in[i]) - kLow) * static_cast<double>(scale));
        } else {
          const int low = static_cast<int>(kLow) + (narrow_ ? 1 : 0);
          const float high = static_cast<float>(kHigh);
          const float scale = low == 0 || std::is_unsigned_v<T> ? max / high : std::max(min / low, max / high);
          y = static_cast<float>(in[i]) * scale;
        }
        if (out->dtype() == kFloat) {
          out->mutable_data<float>()[i] = y;
        } else {
          out->mutable_data<BFloat16>()[i] = static_cast<BFloat16>(y);
        }
      }
      return absl::OkStatus();
    });
  }
};

absl::Status ToIntegersShape(ShapeContext& c) {
  ASSIGN_OR_RETURN(const int64_t axis, c.Attr<int64_t>("axis"));
  c.set_output(0, c.input(0));
  for (int i = 1; i < 3; ++i) c.set_output(i, axis == -1 ? PartialShape(Shape()) : PartialShape::OfRank(1));
  return absl::OkStatus();
}

constexpr char kQuantizedTypes[] = "T: {qint8, quint8, qint32, qint16, quint16}";
constexpr char kMode[] = "mode: {'MIN_COMBINED', 'MIN_FIRST', 'SCALED'} = 'MIN_COMBINED'";

const OpRegistration kQuantizeOps[] = {
    Op("QuantizeV2")
        .Input("input: float")
        .Input("min_range: float")
        .Input("max_range: float")
        .Output("output: T")
        .Output("output_min: float")
        .Output("output_max: float")
        .Attr(kQuantizedTypes)
        .Attr(kMode)
        .Attr("round_mode: {'HALF_AWAY_FROM_ZERO', 'HALF_TO_EVEN'} = 'HALF_AWAY_FROM_ZERO'")
        .Attr("narrow_range: bool = false")
        .Attr("axis: int = -1")
        .Attr("ensure_minimum_range: float = 0.01")
        .Shape(ToIntegersShape)
        .Kernel<ToIntegersKernel>()
        .NotDifferentiable(),
    Op("Dequantize")
        .Input("input: T")
        .Input("min_range: float")
        .Input("max_range: float")
        .Output("output: dtype")
        .Attr(kQuantizedTypes)
        .Attr(kMode)
        .Attr("narrow_range: bool = false")
        .Attr("axis: int = -1")
        .Attr("dtype: {bfloat16, float} = DT_FLOAT")
        .Shape(shapes::LikeInput0)
        .Kernel<ToFloatsKernel>()
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
