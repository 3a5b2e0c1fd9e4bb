// SPDX-License-Identifier: Apache-2.0
// The meaning of quantized integers: the lowest integer of its type is the
// minimum of a range of floats, the highest the maximum.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "thalweg/kernel/kernel.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// The integers of quantized types.
using QuantizedStorage = Types<int8_t, uint8_t, int16_t, uint16_t, int32_t>;

struct QuantizedRange {
  float min = 0, max = 0;
  friend bool operator==(const QuantizedRange&, const QuantizedRange&) = default;
};

// Inputs i and i + 1. INVALID_ARGUMENT unless both are scalars of finite numbers.
absl::StatusOr<QuantizedRange> RangeInput(KernelContext& c, int i);
// Outputs i and i + 1.
absl::Status SetRange(KernelContext& c, int i, const QuantizedRange& range);

template <typename T>
constexpr double kLowest = static_cast<double>(std::numeric_limits<T>::lowest());
template <typename T>
constexpr double kHighest = static_cast<double>(std::numeric_limits<T>::max());
// Integers of the type.
template <typename T>
constexpr double kLevels = kHighest<T> - kLowest<T> + 1;

// The float between two neighbouring integers.
template <typename T>
float OneLevel(const QuantizedRange& range) {
  return (range.max - range.min) / static_cast<float>(static_cast<int64_t>(kLevels<T>) - 1);
}

template <typename T>
float ToFloat(T value, const QuantizedRange& range) {
  if (range.min == range.max) return range.min;
  const double scale = (range.max - range.min) * (kLevels<T> / (kLevels<T> - 1)) / kLevels<T>;
  const float float_scale = static_cast<float>(scale);
  const double min = std::round(range.min / float_scale) * float_scale;
  return static_cast<float>(min + (static_cast<double>(value) - kLowest<T>)*scale);
}

// May be outside of T.
template <typename T>
int64_t Unclamped(float value, const QuantizedRange& range) {
  if (range.min == range.max) return 0;
  const double scale = kLevels<T> / ((range.max - range.min) * (kLevels<T> / (kLevels<T> - 1)));
  const double quantized = std::round(value * scale) - std::round(range.min * scale) + kLowest<T>;
  constexpr double kFar = 1e18;
  return std::isnan(quantized) ? 0 : static_cast<int64_t>(std::clamp(quantized, -kFar, kFar));
}

template <typename T>
T ToQuantized(float value, const QuantizedRange& range) {
  if (range.min == range.max) return 0;
  return static_cast<T>(
      std::clamp(Unclamped<T>(value, range), static_cast<int64_t>(kLowest<T>), static_cast<int64_t>(kHighest<T>)));
}

// The same in floats, for many: this is what TensorFlow computes for tensors, and
// it differs from the above in the last bit.
template <typename T>
class FromQuantizedFloats {
 public:
  explicit FromQuantizedFloats(const QuantizedRange& range)
      : scale_(static_cast<float>((range.max - range.min) / (kLevels<T> - 1))),
        base_((range.max == range.min ? range.min : std::round(range.min / scale_) * scale_) -
              static_cast<float>(kLowest<T>) * scale_) {}
  float operator()(T value) const { return base_ + static_cast<float>(value) * scale_; }

 private:
  const float scale_, base_;
};

template <typename T>
class ToQuantizedFloats {
 public:
  explicit ToQuantizedFloats(const QuantizedRange& range)
      : scale_(range.max == range.min ? 0.0f : static_cast<float>((kLevels<T> - 1) / (range.max - range.min))),
        offset_(std::round(range.min * scale_) - static_cast<float>(kLowest<T>)) {}
  T operator()(float value) const {
    const float low = std::max(static_cast<float>(kLowest<T>), -2147483648.0f);
    const float high = std::min(static_cast<float>(kHighest<T>), 2147483520.0f);
    const float quantized = std::round(value * scale_) - offset_;
    return std::isnan(quantized) ? T(0) : static_cast<T>(static_cast<int32_t>(std::clamp(quantized, low, high)));
  }

 private:
  const float scale_, offset_;
};

// Elements of quantized tensors, as integers.
template <typename T>
const T* Integers(const Tensor& t) {
  return static_cast<const T*>(t.raw());
}
template <typename T>
T* MutableIntegers(Tensor* t) {
  return static_cast<T*>(t->raw());
}

}  // namespace thalweg
