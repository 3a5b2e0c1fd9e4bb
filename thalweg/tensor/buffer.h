// SPDX-License-Identifier: Apache-2.0
// The memory of tensors: a reference-counted block. Header and elements share one allocation, so a
// tensor needs one pool allocation and no malloc.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "thalweg/base/memory.h"
#include "thalweg/tensor/dtype.h"

namespace thalweg {

// Ref() and Unref() are thread-safe. The elements may be written only if unique().
class alignas(Allocator::kAlignment) Buffer {
 public:
  // A buffer with one reference for `count` elements of `dtype`. Numbers are
  // not initialised; strings, resources and variants are default-constructed.
  // nullptr if memory is short. REQUIRES: a known type that is not a reference type.
  static Buffer* Allocate(Allocator& allocator, DType dtype, int64_t count);

  // A buffer around foreign memory (a received message, a mapped file). `release` runs when the last
  // reference is gone. Tensors never write to it: unique() is always false. REQUIRES: `data` holds plain
  // numbers with the alignment of their type.
  static Buffer* Wrap(const void* data, size_t bytes, absl::AnyInvocable<void()> release);

  void Ref() { references_.fetch_add(1, std::memory_order_relaxed); }
  void Unref() {
    // The last holder saves the atomic subtraction.
    if (references_.load(std::memory_order_acquire) == 1 || references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      Destroy();
    }
  }
  // True if the caller's reference is the only one and the memory is not foreign.
  bool unique() const { return writable_ && references_.load(std::memory_order_acquire) == 1; }
  // unique(), and so small that overwriting is cheaper than freeing.
  bool recyclable() const { return small_ && references_.load(std::memory_order_acquire) == 1; }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

  // Bytes from one element to the next: ElementSize(), or the size of the C++ object for strings,
  // resources and variants.
  static size_t Stride(DType dtype);

 private:
  static constexpr size_t kSmallBytes = 64;

  Buffer(Allocator* allocator, void* data, size_t bytes, DType dtype, int64_t count, bool writable)
      : data_(data),
        bytes_(bytes),
        allocator_(allocator),
        count_(count),
        dtype_(dtype),
        writable_(writable),
        small_(writable && bytes <= kSmallBytes && dtype != kString && dtype != kResource && dtype != kVariant) {}
  ~Buffer() = default;
  void Destroy();

  std::atomic<int64_t> references_{1};
  void* const data_;
  const size_t bytes_;
  Allocator* const allocator_;  // nullptr for foreign memory
  const int64_t count_;
  const DType dtype_;
  const bool writable_;
  const bool small_;
};
static_assert(sizeof(Buffer) == Allocator::kAlignment);

// Owns one reference to a Buffer.
class BufferPtr {
 public:
  BufferPtr() = default;
  explicit BufferPtr(Buffer* adopt) : buffer_(adopt) {}
  BufferPtr(const BufferPtr& other) : buffer_(other.buffer_) {
    if (buffer_ != nullptr) buffer_->Ref();
  }
  BufferPtr(BufferPtr&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
  BufferPtr& operator=(BufferPtr other) noexcept {
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~BufferPtr() {
    if (buffer_ != nullptr) buffer_->Unref();
  }
  void Reset() {
    if (buffer_ != nullptr) std::exchange(buffer_, nullptr)->Unref();
  }
  Buffer* get() const { return buffer_; }
  Buffer* operator->() const { return buffer_; }
  explicit operator bool() const { return buffer_ != nullptr; }

 private:
  Buffer* buffer_ = nullptr;
};

}  // namespace thalweg
