// The memory behind tensors: a reference-counted block. The header lies in
// front of the elements in one allocation, so that a tensor costs one trip to
// the pool and none to malloc.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "thalweg/base/memory.h"
#include "thalweg/tensor/dtype.h"

namespace thalweg {

// Thread-safe for Ref/Unref; whoever finds unique() may write.
class alignas(Allocator::kAlignment) Buffer {
 public:
  // A buffer with one reference for `count` elements of `dtype`. Numbers are
  // not initialised; strings, resources and variants are default-constructed.
  // nullptr if memory is short. REQUIRES: a known type that is no reference.
  static Buffer* Allocate(Allocator& allocator, DType dtype, int64_t count);

  // A buffer around memory that belongs to somebody else (a received message,
  // a mapped file). `release` runs when the last reference goes.
  // REQUIRES: `data` holds plain numbers, aligned as their type wants, and is
  // never written through a tensor (unique() is always false).
  static Buffer* Wrap(const void* data, size_t bytes, absl::AnyInvocable<void()> release);

  void Ref() { references_.fetch_add(1, std::memory_order_relaxed); }
  void Unref() {
    // The last holder need not pay for an atomic subtraction.
    if (references_.load(std::memory_order_acquire) == 1 || references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      Destroy();
    }
  }
  // True if the caller's reference is the only one and the memory is ours.
  bool unique() const { return writable_ && references_.load(std::memory_order_acquire) == 1; }
  // unique(), and holds only a few numbers: cheaper to write over than to free.
  bool recyclable() const { return small_ && references_.load(std::memory_order_acquire) == 1; }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

  // Bytes from one element to the next: ElementSize(), but of the C++ object
  // for strings, resources and variants.
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
  Allocator* const allocator_;  // nullptr: wrapped
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
