// SPDX-License-Identifier: Apache-2.0
// Arguments of op constructors that may be constants: C++ numbers and braces, or a
// tensor that is known only when the graph runs.
//
//   Reshape(s, x, {-1, 784})        Reshape(s, x, shape_tensor)
//   TopK(s, x, 5)                   TopK(s, x, k_tensor)
//   Pad(s, x, {{1, 1}, {0, 0}})     Fill(s, {2, 3}, 1.0f)
#pragma once

#include <complex>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "thalweg/graph/scope.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Types that stand for a tensor: Output, Node*, Var, ...
template <typename T>
concept TensorLike = std::is_convertible_v<const T&, Output>;

// Integers that an op takes as a vector: a shape, sizes, axes, a permutation. A value.
class IntsArg {
 public:
  // Constants in braces: {2, -1}. {} is an empty list.
  IntsArg(std::initializer_list<int64_t> values) : values_(values) {}  // NOLINT: implicit by design
  // One constant, as a list of one.
  template <typename T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) IntsArg(T value)  // NOLINT: implicit by design
      : values_({static_cast<int64_t>(value)}) {}
  // Constants that were computed while the graph is built.
  template <typename T>
  requires std::is_integral_v<T> IntsArg(const std::vector<T>& values)  // NOLINT: implicit by design
      : values_(std::vector<int64_t>(values.begin(), values.end())) {}
  // The dimensions of a shape.
  IntsArg(const Shape& shape)  // NOLINT: implicit by design
      : values_(std::vector<int64_t>(shape.dims().begin(), shape.dims().end())) {}
  // An int32 or int64 vector of the graph.
  template <TensorLike T>
  IntsArg(const T& tensor) : tensor_(tensor) {}  // NOLINT: implicit by design

  // The constants; nothing if it is a tensor.
  const std::optional<std::vector<int64_t>>& values() const { return values_; }
  // The type of the tensor; kInvalid for constants, which fit every integer type.
  DType dtype() const { return values_ ? kInvalid : tensor_.dtype(); }
  // The tensor, or a constant named `name` that is made of `dtype`; of int64 if a value
  // does not fit into int32.
  Output AsTensor(const Scope& s, absl::string_view name, DType dtype = kInt32) const;

 private:
  std::optional<std::vector<int64_t>> values_;
  Output tensor_;
};

// An integer that an op takes as a scalar: an axis, a depth, a count. A value.
class IntArg {
 public:
  // A constant.
  template <typename T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) IntArg(T value)  // NOLINT: implicit by design
      : value_(static_cast<int64_t>(value)) {}
  // An int32 or int64 scalar of the graph.
  template <TensorLike T>
  IntArg(const T& tensor) : tensor_(tensor) {}  // NOLINT: implicit by design

  // The constant; nothing if it is a tensor.
  const std::optional<int64_t>& value() const { return value_; }
  // The type of the tensor; kInvalid for a constant, which fits every integer type.
  DType dtype() const { return value_ ? kInvalid : tensor_.dtype(); }
  // As IntsArg::AsTensor.
  Output AsTensor(const Scope& s, absl::string_view name, DType dtype = kInt32) const;

 private:
  std::optional<int64_t> value_;
  Output tensor_;
};

// Pairs of integers that an op takes as a matrix [n, 2]: how much to add before and
// after each dimension. A value.
class IntPairsArg {
 public:
  // Constants in braces: {{1, 1}, {0, 2}}.
  IntPairsArg(std::initializer_list<std::pair<int64_t, int64_t>> values) : values_(values) {}  // NOLINT
  // An int32 or int64 matrix of the graph.
  template <TensorLike T>
  IntPairsArg(const T& tensor) : tensor_(tensor) {}  // NOLINT: implicit by design

  // As IntsArg::AsTensor.
  Output AsTensor(const Scope& s, absl::string_view name, DType dtype = kInt32) const;

 private:
  std::optional<std::vector<std::pair<int64_t, int64_t>>> values_;
  Output tensor_;
};

// A scalar of any type: a C++ value, whose type decides the element type, or a tensor.
class ScalarArg {
 public:
  // A constant: 1.0f is a float, 1 an int32, true a bool.
  template <typename T>
  requires std::is_arithmetic_v<T> ScalarArg(T value)  // NOLINT: implicit by design
      : value_(Tensor::Scalar<T>(value)) {}
  // A text:
  ScalarArg(const char* text) : value_(Tensor::Scalar<std::string>(text)) {}         // NOLINT: implicit by design
  ScalarArg(const std::string& text) : value_(Tensor::Scalar<std::string>(text)) {}  // NOLINT: as above
  // A scalar of the graph.
  template <TensorLike T>
  ScalarArg(const T& tensor) : tensor_(tensor) {}  // NOLINT: implicit by design

  // The tensor, or a constant named `name`.
  Output AsTensor(const Scope& s, absl::string_view name) const;

 private:
  Tensor value_;
  Output tensor_;
};

// A C++ number beside a tensor, as in `x + 1`: it takes the tensor's element type.
class NumberArg {
 public:
  // Any number.
  template <typename T>
  requires std::is_arithmetic_v<T> NumberArg(T value)  // NOLINT: implicit by design
      : real_(static_cast<double>(value)), integer_(static_cast<int64_t>(value)), is_integer_(std::is_integral_v<T>) {}

  // A constant scalar of `dtype`. The scope fails if the number does not fit: 0.5 as an
  // integer, 300 as a uint8, or any number as a string.
  Output AsTensor(const Scope& s, DType dtype) const;

 private:
  double real_;
  int64_t integer_;  // used if is_integer_
  bool is_integer_;
};

// How windows of a convolution or pooling lie at the edges of their input.
enum class Padding {
  kValid,     // only whole windows
  kSame,      // the output is as large as the input, divided by the strides
  kExplicit,  // by as many zeros as ConvOptions::explicit_paddings says
};

// Which dimension of an image or volume has the channels.
enum class DataFormat {
  kChannelsLast,   // NHWC, or NDHWC for volumes
  kChannelsFirst,  // NCHW, or NCDHW for volumes
};

// How bytes are compressed.
enum class CompressionType {
  kNone,  // not at all
  kZlib,  // RFC 1950
  kGzip,  // RFC 1952
};

/// @cond INTERNAL
// The names that attributes have: "SAME", "NHWC", "GZIP".
const char* NameOf(Padding padding);
const char* NameOf(DataFormat format, int spatial_dimensions = 2);
const char* NameOf(CompressionType type);
/// @endcond

}  // namespace thalweg
