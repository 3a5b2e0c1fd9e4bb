// SPDX-License-Identifier: Apache-2.0
// Tensor: a value of some type and shape.
//
//   Tensor x = Tensor::Of<float>({2, 2}, {1, 2, 3, 4});
//   Tensor y(kFloat, {32, 784});
//   for (float& v : y.flat<float>()) v = 0;
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "thalweg/tensor/buffer.h"
#include "thalweg/tensor/dtype.h"
#include "thalweg/tensor/shape.h"

namespace thalweg {

// Elements of one type in row-major order. Copying shares the buffer. Nobody writes to
// a buffer that others can see, so that a copy behaves like a deep one. To fill a
// tensor, make a new one and write through flat() or mutable_data().
class Tensor {
 public:
  // No value: dtype kInvalid, for slots that are not filled.
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor& operator=(const Tensor&) = default;
  // A tensor that was moved from has no value.
  Tensor(Tensor&& other) noexcept
      : buffer_(std::move(other.buffer_)),
        data_(std::exchange(other.data_, nullptr)),
        dtype_(std::exchange(other.dtype_, kInvalid)),
        shape_(std::move(other.shape_)) {}
  Tensor& operator=(Tensor&& other) noexcept {
    buffer_ = std::move(other.buffer_);
    data_ = std::exchange(other.data_, nullptr);
    dtype_ = std::exchange(other.dtype_, kInvalid);
    shape_ = std::move(other.shape_);
    return *this;
  }

  /// @cond INTERNAL
  // Lets go of the buffer: no value any more. The fast way to empty a slot.
  void Reset() {
    buffer_.Reset();
    data_ = nullptr;
    dtype_ = kInvalid;
  }
  // A tensor of `shape` that takes the buffer over. This one still shows the
  // elements, as long as that one lives, and no longer counts as a holder.
  // REQUIRES: as many elements.
  Tensor PassOn(const Shape& shape) { return Tensor(dtype_, shape, std::move(buffer_), data_); }

  /// @endcond

  // Elements are not initialised (strings are empty). Memory that cannot be had
  // is a CHECK failure here; Allocate returns an error instead.
  Tensor(DType dtype, Shape shape) : Tensor(dtype, std::move(shape), HostAllocator()) {}
  // The same, in memory of `allocator`.
  Tensor(DType dtype, Shape shape, Allocator& allocator);
  // RESOURCE_EXHAUSTED, naming the shape and the bytes, if memory is short;
  // INVALID_ARGUMENT if no tensor has this type.
  static absl::StatusOr<Tensor> Allocate(DType dtype, Shape shape, Allocator& allocator = HostAllocator());
  /// @cond INTERNAL
  // Around a buffer that already holds the elements from `data` on.
  Tensor(DType dtype, Shape shape, BufferPtr buffer, void* data)
      : buffer_(std::move(buffer)), data_(data), dtype_(dtype), shape_(std::move(shape)) {}
  /// @endcond

  // A scalar: Tensor::Scalar<float>(0.5f), Tensor::Scalar<std::string>("text").
  template <typename T>
  static Tensor Scalar(T value);
  // A tensor of rank 1: Tensor::Vector<int32_t>({1, 2, 3}).
  template <typename T>
  static Tensor Vector(absl::Span<const T> values);
  // As above, from braces.
  template <typename T>
  static Tensor Vector(std::initializer_list<T> values) {
    return Vector<T>(absl::MakeConstSpan(values.begin(), values.size()));
  }
  // Values in row-major order: Tensor::Of<float>({2, 2}, {1, 2, 3, 4}).
  // REQUIRES: as many values as the shape has elements (CHECKed).
  template <typename T>
  static Tensor Of(Shape shape, absl::Span<const T> values);
  // As above, from braces.
  template <typename T>
  static Tensor Of(Shape shape, std::initializer_list<T> values) {
    return Of<T>(std::move(shape), absl::MakeConstSpan(values.begin(), values.size()));
  }
  // Zeros, or empty strings.
  static Tensor Zeros(DType dtype, Shape shape);

  DType dtype() const { return dtype_; }                          // the element type
  const Shape& shape() const { return shape_; }                   // the dimensions
  int rank() const { return shape_.rank(); }                      // number of dimensions
  int64_t dim(int i) const { return shape_.dim(i); }              // REQUIRES: 0 <= i < rank()
  int64_t num_elements() const { return shape_.num_elements(); }  // product of the dimensions
  bool has_value() const { return dtype_ != kInvalid; }           // false for a default one
  // Bytes of the elements; for strings, the sum of their lengths.
  int64_t TotalBytes() const;

  // The elements. REQUIRES: T is the element type (CHECKed).
  template <typename T>
  const T* data() const {
    return static_cast<const T*>(Typed(DTypeOf<T>));
  }
  // The elements, to write to. REQUIRES: T is the element type (CHECKed), and no other
  // tensor shares the buffer.
  template <typename T>
  T* mutable_data() {
    return static_cast<T*>(Typed(DTypeOf<T>));
  }
  // The elements as a span: `for (float v : t.flat<float>())`.
  template <typename T>
  absl::Span<const T> flat() const {
    return absl::MakeConstSpan(data<T>(), num_elements());
  }
  // The same, to write to; as mutable_data().
  template <typename T>
  absl::Span<T> flat() {
    return absl::MakeSpan(mutable_data<T>(), num_elements());
  }
  // The only element. REQUIRES: exactly one element, of type T (CHECKed).
  template <typename T>
  const T& scalar() const {
    if (num_elements() != 1) [[unlikely]]
      FailNotOne();
    return *data<T>();
  }
  // The memory of the elements.
  void* raw() const { return data_; }

  // True if no other tensor sees this memory, so that it may be written.
  bool unique() const { return buffer_ && buffer_->unique(); }
  /// @cond INTERNAL
  // That, and a few numbers: cheaper to write over than to free.
  bool recyclable() const { return buffer_ && buffer_->recyclable(); }
  bool SharesBufferWith(const Tensor& other) const { return buffer_.get() == other.buffer_.get(); }
  const BufferPtr& buffer() const { return buffer_; }
  /// @endcond

  // The same elements under another shape. REQUIRES: as many elements.
  Tensor WithShape(Shape shape) const;
  // The same bits as another type of the same element size. REQUIRES: that.
  Tensor Bitcast(DType dtype) const;
  // Rows [begin, end) of the first dimension; shares the buffer.
  // REQUIRES: rank() >= 1, 0 <= begin <= end <= dim(0).
  Tensor Rows(int64_t begin, int64_t end) const;
  // A copy with memory of its own.
  Tensor Clone() const;
  // The same; RESOURCE_EXHAUSTED if memory is short.
  absl::StatusOr<Tensor> TryClone(Allocator& allocator = HostAllocator()) const;

  // "float [2,3] [1 2 3...]", at most `max_elements` of them. Strings are quoted
  // and escaped.
  std::string ToString(int max_elements = 6) const;

 private:
  void* Typed(DType expected) const {
    if (expected != dtype_) [[unlikely]]
      FailTyped(expected);
    return data_;
  }
  // Failed CHECKs, which would fill every place that reads elements.
  [[noreturn]] void FailTyped(DType expected) const;
  [[noreturn]] void FailNotOne() const;
  [[noreturn]] void FailCount(size_t values) const;

  BufferPtr buffer_;
  void* data_ = nullptr;
  DType dtype_ = kInvalid;
  Shape shape_;
};

template <typename T>
Tensor Tensor::Of(Shape shape, absl::Span<const T> values) {
  Tensor t(DTypeOf<T>, std::move(shape));
  if (t.num_elements() != static_cast<int64_t>(values.size())) [[unlikely]]
    t.FailCount(values.size());
  std::copy(values.begin(), values.end(), t.mutable_data<T>());
  return t;
}
template <typename T>
Tensor Tensor::Scalar(T value) {
  return Of<T>(Shape(), absl::MakeConstSpan(&value, 1));
}
template <typename T>
Tensor Tensor::Vector(absl::Span<const T> values) {
  return Of<T>(Shape({static_cast<int64_t>(values.size())}), values);
}

}  // namespace thalweg
