// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/arguments.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "thalweg/base/status.h"

namespace thalweg {
namespace {

bool FitsInt32(int64_t value) {
  return value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max();
}

Output Constant(const Scope& s, absl::string_view name, const Tensor& value) {
  return s.Argument(name).Add("Const", {}, {{"dtype", value.dtype()}, {"value", value}});
}

// Integers as int32 or, if one does not fit or it is asked for, int64.
Output IntConstant(const Scope& s, absl::string_view name, DType dtype, const Shape& shape,
                   const std::vector<int64_t>& values) {
  if (RemoveRef(dtype) == kInt64 || !std::all_of(values.begin(), values.end(), FitsInt32)) {
    return Constant(s, name, Tensor::Of<int64_t>(shape, values));
  }
  const std::vector<int32_t> narrow(values.begin(), values.end());
  return Constant(s, name, Tensor::Of<int32_t>(shape, narrow));
}

template <typename T>
bool Fits(double real, int64_t integer, bool is_integer) {
  if constexpr (std::is_integral_v<T>) {
    if (!is_integer) {
      // 2^63 and more do not fit into any of them, and are doubles.
      if (std::nearbyint(real) != real || std::abs(real) >= 0x1p63) return false;
      integer = static_cast<int64_t>(real);
    }
    if constexpr (std::is_same_v<T, uint64_t>) return integer >= 0;
    return static_cast<int64_t>(static_cast<T>(integer)) == integer;
  }
  return true;
}

}  // namespace

const char* NameOf(Padding padding) {
  return padding == Padding::kSame ? "SAME" : padding == Padding::kValid ? "VALID" : "EXPLICIT";
}

const char* NameOf(DataFormat format, int spatial_dimensions) {
  const bool last = format == DataFormat::kChannelsLast;
  if (spatial_dimensions == 3) return last ? "NDHWC" : "NCDHW";
  return last ? "NHWC" : "NCHW";
}

const char* NameOf(CompressionType type) {
  return type == CompressionType::kZlib ? "ZLIB" : type == CompressionType::kGzip ? "GZIP" : "";
}

Output IntsArg::AsTensor(const Scope& s, absl::string_view name, DType dtype) const {
  if (!values_.has_value()) return tensor_;
  return IntConstant(s, name, dtype, Shape({static_cast<int64_t>(values_->size())}), *values_);
}

Output IntArg::AsTensor(const Scope& s, absl::string_view name, DType dtype) const {
  return value_.has_value() ? IntConstant(s, name, dtype, Shape(), {*value_}) : tensor_;
}

Output IntPairsArg::AsTensor(const Scope& s, absl::string_view name, DType dtype) const {
  if (!values_.has_value()) return tensor_;
  std::vector<int64_t> flat;
  for (const auto& [before, after] : *values_) flat.insert(flat.end(), {before, after});
  return IntConstant(s, name, dtype, Shape({static_cast<int64_t>(values_->size()), 2}), flat);
}

Output ScalarArg::AsTensor(const Scope& s, absl::string_view name) const {
  return value_.has_value() ? Constant(s, name, value_) : tensor_;
}

Output NumberArg::AsTensor(const Scope& s, DType dtype) const {
  if (!s.ok()) return {};
  Tensor value(RemoveRef(dtype), Shape());
  s.Fail(Dispatch(PodTypes(), value.dtype(), [&]<typename T>() {
    if (!Fits<T>(real_, integer_, is_integer_)) {
      return InvalidArgument("the number ", real_, " beside a tensor is not a ", dtype);
    }
    if constexpr (std::is_integral_v<T>) {
      *value.mutable_data<T>() = is_integer_ ? static_cast<T>(integer_) : static_cast<T>(real_);
    } else {
      *value.mutable_data<T>() = T(static_cast<double>(is_integer_ ? static_cast<double>(integer_) : real_));
    }
    return absl::OkStatus();
  }));
  return s.ok() ? Constant(s, "value", value) : Output();
}

}  // namespace thalweg
