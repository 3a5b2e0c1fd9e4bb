// SPDX-License-Identifier: Apache-2.0
// Requantize: integers that stand for a range of floats as others that stand for
// another one. RequantizationRange: the part of the range that a tensor uses.
// QuantizeDownAndShrinkRange does both. PerChannel: each channel has a range.
#include <algorithm>
#include <cmath>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/quantization/quantized_range.h"

namespace thalweg {

absl::StatusOr<QuantizedRange> RangeInput(KernelContext& c, int i) {
  QuantizedRange range;
  for (const int k : {0, 1}) {
    const Tensor& t = c.input(i + k);
    if (t.rank() != 0) {
      const std::string& name = c.node().schema()->def.input_arg_size() > i + k
                                    ? c.node().schema()->def.input_arg(i + k).name()
                                    : std::string("range");
      return InvalidArgument("`", name, "` must be rank 0 but is rank ", t.rank());
    }
    const float value = t.scalar<float>();
    if (!std::isfinite(value)) return InvalidArgument("a quantized range must be finite, got ", value);
    (k == 0 ? range.min : range.max) = value;
  }
  return range;
}

absl::Status SetRange(KernelContext& c, int i, const QuantizedRange& range) {
  for (const int k : {0, 1}) {
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(i + k, Shape()));
    *out->mutable_data<float>() = k == 0 ? range.min : range.max;
  }
  return absl::OkStatus();
}

namespace {

template <typename From, typename To>
void RequantizeAll(const Tensor& x, const QuantizedRange& from, const QuantizedRange& to, Tensor* y) {
  const FromQuantizedFloats<From> floats(from);
  const ToQuantizedFloats<To> quantized(to);
  const From* const in = Integers<From>(x);
  To* const out = MutableIntegers<To>(y);
  for (int64_t i = 0; i < x.num_elements(); ++i) out[i] = quantized(floats(in[i]));
}

// From 32 bits to 8, in fixed point with 16 bits for the fraction: TensorFlow's
// results differ from those of floats where one lies between two integers.
template <>
void RequantizeAll<int32_t, uint8_t>(const Tensor& x, const QuantizedRange& from, const QuantizedRange& to, Tensor* y) {
  constexpr int kShift = 16;
  constexpr double kOne = 1 << kShift, kFar = 4e9 * kOne;  // a product with 32 bits still fits
  const float width = to.max - to.min;
  const auto fixed = [&](double value) {
    return width == 0 || std::isnan(value) ? 0 : static_cast<int64_t>(std::clamp(value, -kFar, kFar));
  };
  const float per_unit = width == 0 ? 0.0f : static_cast<float>(255.0 / width), middle = (from.min + from.max) / 2;
  const int64_t scale = fixed(255.0 * kOne * (from.max - from.min) / width);
  const int64_t offset = fixed(middle * per_unit * static_cast<float>(kOne));
  const int64_t low = fixed(std::round(kOne * (to.min * 255.0) / width));
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const int64_t value =
        static_cast<int64_t>(static_cast<__int128>(Integers<int32_t>(x)[i]) * scale >> 32) + offset - low;
    MutableIntegers<uint8_t>(y)[i] =
        static_cast<uint8_t>(std::clamp<int64_t>((value + (1 << (kShift - 1))) >> kShift, 0, 255));
  }
}

absl::Status RequantizeTo(KernelContext& c, const QuantizedRange& from, const QuantizedRange& to) {
  const Tensor x = c.input(0);
  ASSIGN_OR_RETURN(Tensor* const y, c.Allocate(0, x.shape()));
  RETURN_IF_ERROR(SetRange(c, 1, to));
  return Dispatch(QuantizedStorage(), StorageType(x.dtype()), [&]<typename From>() {
    return Dispatch(QuantizedStorage(), StorageType(y->dtype()), [&]<typename To>() {
      RequantizeAll<From, To>(x, from, to, y);
      return absl::OkStatus();
    });
  });
}

absl::Status ComputeRequantize(KernelContext& c) {
  ASSIGN_OR_RETURN(const QuantizedRange from, RangeInput(c, 1));
  ASSIGN_OR_RETURN(const QuantizedRange to, RangeInput(c, 3));
  if (to.min > 0) return InvalidArgument("requested_output_min must be <= 0, but got ", to.min);
  if (to.max < to.min) {
    return InvalidArgument("requested_output_max must be >= requested_output_min, but got ", to.max, " and ", to.min);
  }
  return RequantizeTo(c, from, to);
}

// The range that the elements of input 0 use, with 0 in it.
absl::StatusOr<QuantizedRange> UsedRange(const Tensor& x, const QuantizedRange& range) {
  QuantizedRange used;
  RETURN_IF_ERROR(Dispatch(QuantizedStorage(), StorageType(x.dtype()), [&]<typename T>() {
    T low = std::numeric_limits<T>::max(), high = std::numeric_limits<T>::lowest();
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      low = std::min(low, Integers<T>(x)[i]);
      high = std::max(high, Integers<T>(x)[i]);
    }
    used = {std::min(0.0f, ToFloat(low, range)), ToFloat(high, range)};
    return absl::OkStatus();
  }));
  return used;
}

absl::Status ComputeRange(KernelContext& c) {
  ASSIGN_OR_RETURN(const QuantizedRange range, RangeInput(c, 1));
  ASSIGN_OR_RETURN(const QuantizedRange used, UsedRange(c.input(0), range));
  return SetRange(c, 0, used);
}

absl::Status ComputeShrink(KernelContext& c) {
  ASSIGN_OR_RETURN(const QuantizedRange range, RangeInput(c, 1));
  ASSIGN_OR_RETURN(const QuantizedRange used, UsedRange(c.input(0), range));
  return RequantizeTo(c, range, used);
}

// The largest magnitude that the range of channel i stands for.
float Magnitude(const Tensor& low, const Tensor& high, int64_t i) {
  return std::max(std::abs(low.data<float>()[i]), std::abs(high.data<float>()[i]));
}

absl::Status CheckChannels(KernelContext& c) {
  const Tensor &x = c.input(0), &low = c.input(1), &high = c.input(2);
  if (x.rank() != 4) return InvalidArgument("input must be in NHWC format, got shape ", x.shape());
  if (StorageType(x.dtype()) != kInt32) return Unimplemented("an input of type ", x.dtype(), "; use qint32");
  for (const int i : {1, 2}) {
    if (c.input(i).rank() == 1 && c.input(i).dim(0) == x.dim(3)) continue;
    return InvalidArgument(i == 1 ? "input_min" : "input_max", " has incorrect size, expected ", x.dim(3), " was ",
                           c.input(i).shape());
  }
  for (int64_t i = 0; i < x.dim(3); ++i) {
    if (!std::isfinite(Magnitude(low, high, i))) return InvalidArgument("a quantized range must be finite");
  }
  return absl::OkStatus();
}

constexpr float kTwoTo31 = 2147483648.0f;

// The range that suffices for all channels, at most up to clip_value_max.
absl::Status ComputeRangePerChannel(KernelContext& c) {
  RETURN_IF_ERROR(CheckChannels(c));
  const Tensor& x = c.input(0);
  if (x.num_elements() == 0) return InvalidArgument("input must not be empty");
  ASSIGN_OR_RETURN(const float limit, GetAttr<float>(c.node().def(), "clip_value_max"));
  const int64_t channels = x.dim(3);
  std::vector<float> most(channels, 0);  // the largest magnitude in each channel
  bool negative = false;
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const int32_t value = Integers<int32_t>(x)[i];
    negative = negative || value < 0;
    most[i % channels] = std::max(most[i % channels], std::abs(static_cast<float>(value)));
  }
  float range = std::numeric_limits<float>::min();
  for (int64_t i = 0; i < channels; ++i) {
    range = std::max(range, Magnitude(c.input(1), c.input(2), i) * most[i] / kTwoTo31);
  }
  range = std::min(range, limit);
  return SetRange(c, 0, {negative ? -range : 0.0f, range});
}

absl::Status ComputeRequantizePerChannel(KernelContext& c) {
  RETURN_IF_ERROR(CheckChannels(c));
  ASSIGN_OR_RETURN(const QuantizedRange to, RangeInput(c, 3));
  const Tensor x = c.input(0);
  const bool is_signed = StorageType(c.output_type(0)) == kInt8;
  if (!is_signed && StorageType(c.output_type(0)) != kUint8) {
    return Unimplemented("a result of type ", c.output_type(0), "; use qint8 or quint8");
  }
  if (is_signed && to.min >= 0) {
    return InvalidArgument("If out_type is QINT8, requested_output_max must be non negative, got ", to.min);
  }
  ASSIGN_OR_RETURN(Tensor* const y, c.Allocate(0, x.shape()));
  RETURN_IF_ERROR(SetRange(c, 1, to));
  const int64_t channels = x.dim(3);
  const float requested = std::max(std::abs(to.min), std::abs(to.max));
  std::vector<float> scales(channels);
  for (int64_t i = 0; i < channels; ++i) {
    scales[i] = (is_signed ? 127.0f : 255.0f) * (Magnitude(c.input(1), c.input(2), i) / requested / kTwoTo31);
  }
  return Dispatch(Types<int8_t, uint8_t>(), StorageType(y->dtype()), [&]<typename T>() {
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const float value = std::nearbyint(static_cast<float>(Integers<int32_t>(x)[i]) * scales[i % channels]);
      MutableIntegers<T>(y)[i] =
          std::isnan(value)
              ? T(0)
              : static_cast<T>(std::clamp(value, static_cast<float>(kLowest<T>), static_cast<float>(kHighest<T>)));
    }
    return absl::OkStatus();
  });
}

absl::Status PerChannelShapes(ShapeContext& c) {
  RETURN_IF_ERROR(c.WithRank(1, 1).status());
  RETURN_IF_ERROR(c.WithRank(2, 1).status());
  if (c.num_inputs() == 3) return shapes::Scalar(c);
  for (const int i : {3, 4}) RETURN_IF_ERROR(c.RequireScalar(i));
  c.set_output(0, c.input(0));
  c.set_output(1, PartialShape(Shape()));
  c.set_output(2, PartialShape(Shape()));
  return absl::OkStatus();
}

absl::Status ThreeShapes(ShapeContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) RETURN_IF_ERROR(c.RequireScalar(i));
  c.set_output(0, c.input(0));
  c.set_output(1, PartialShape(Shape()));
  c.set_output(2, PartialShape(Shape()));
  return absl::OkStatus();
}

absl::Status RangeShapes(ShapeContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) RETURN_IF_ERROR(c.RequireScalar(i));
  return shapes::Scalar(c);
}

constexpr char kRequantizeInput[] = "Tinput: {qint8, quint8, qint32, qint16, quint16}";
constexpr char kOutType[] = "out_type: {qint8, quint8, qint32, qint16, quint16}";

const OpRegistration kRequantizeOps[] = {
    Op("Requantize")
        .Input("input: Tinput")
        .Input("input_min: float")
        .Input("input_max: float")
        .Input("requested_output_min: float")
        .Input("requested_output_max: float")
        .Output("output: out_type")
        .Output("output_min: float")
        .Output("output_max: float")
        .Attr(kRequantizeInput)
        .Attr(kOutType)
        .Shape(ThreeShapes)
        .Compute(ComputeRequantize)
        .NotDifferentiable(),
    Op("QuantizeDownAndShrinkRange")
        .Input("input: Tinput")
        .Input("input_min: float")
        .Input("input_max: float")
        .Output("output: out_type")
        .Output("output_min: float")
        .Output("output_max: float")
        .Attr(kRequantizeInput)
        .Attr(kOutType)
        .Shape(ThreeShapes)
        .Compute(ComputeShrink)
        .NotDifferentiable(),
    Op("RequantizationRange")
        .Input("input: Tinput")
        .Input("input_min: float")
        .Input("input_max: float")
        .Output("output_min: float")
        .Output("output_max: float")
        .Attr(kRequantizeInput)
        .Shape(RangeShapes)
        .Compute(ComputeRange)
        .NotDifferentiable(),
    Op("RequantizationRangePerChannel")
        .Input("input: T")
        .Input("input_min: float")
        .Input("input_max: float")
        .Output("output_min: float")
        .Output("output_max: float")
        .Attr("T: {qint8, quint8, qint32, qint16, quint16} = DT_QINT32")
        .Attr("clip_value_max: float")
        .Shape(PerChannelShapes)
        .Compute(ComputeRangePerChannel)
        .NotDifferentiable(),
    Op("RequantizePerChannel")
        .Input("input: T")
        .Input("input_min: float")
        .Input("input_max: float")
        .Input("requested_output_min: float")
        .Input("requested_output_max: float")
        .Output("output: out_type")
        .Output("output_min: float")
        .Output("output_max: float")
        .Attr("T: {qint8, quint8, qint32, qint16, quint16} = DT_QINT32")
        .Attr("out_type: {qint8, quint8, qint32, qint16, quint16} = DT_QUINT8")
        .Shape(PerChannelShapes)
        .Compute(ComputeRequantizePerChannel)
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
