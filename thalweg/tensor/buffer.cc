// SPDX-License-Identifier: Apache-2.0
#include "thalweg/tensor/buffer.h"

#include <memory>
#include <new>
#include <string>
#include <utility>

#include "thalweg/base/exported_memory.h"
#include "thalweg/base/logging.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

using Release = absl::AnyInvocable<void()>;

// Runs `f` on the elements if they are objects and not plain numbers.
template <typename F>
void ForObjects(DType dtype, void* data, F&& f) {
  switch (dtype) {
    case kString:
      return f(static_cast<std::string*>(data));
    case kResource:
      return f(static_cast<ResourceHandle*>(data));
    case kVariant:
      return f(static_cast<Variant*>(data));
    default:
      return;
  }
}

// Memory for `bytes` of elements that other processes can map, and for the header and its Release. The latter are
// elsewhere, because other processes could write to what they map. nullptr if there is none.
std::pair<void*, void*> AllocateExported(size_t bytes) {
  void* const data = ExportedMemory::Global().Allocate(bytes);
  if (data == nullptr) return {nullptr, nullptr};
  void* const header = HostAllocator().Allocate(sizeof(Buffer) + sizeof(Release));
  if (header == nullptr) {
    ExportedMemory::Global().Deallocate(data, bytes);
    return {nullptr, nullptr};
  }
  new (static_cast<char*>(header) + sizeof(Buffer))
      Release([data, bytes] { ExportedMemory::Global().Deallocate(data, bytes); });
  return {header, data};
}

}  // namespace

size_t Buffer::Stride(DType dtype) {
  size_t stride = ElementSize(dtype);
  ForObjects(dtype, nullptr, [&](auto* object) { stride = sizeof(*object); });
  return stride;
}

Buffer* Buffer::Allocate(Allocator& allocator, DType dtype, int64_t count) {
  CHECK(IsKnown(dtype) && !IsRef(dtype) && count >= 0) << count << " elements of " << ToString(dtype);
  size_t bytes = 0, total = 0;
  if (__builtin_mul_overflow(static_cast<size_t>(count), Stride(dtype), &bytes) ||
      __builtin_add_overflow(bytes, sizeof(Buffer), &total)) {
    return nullptr;
  }
  // Other processes of this user may be able to write there, so only elements that cannot be an index or a length.
  if (&allocator == &HostAllocator() && (IsFloating(dtype) || IsComplex(dtype)) &&
      ExportedMemory::Global().Wants(bytes)) {
    const auto [header, data] = AllocateExported(bytes);
    if (header != nullptr) return new (header) Buffer(nullptr, data, bytes, dtype, count, /*writable=*/true);
  }
  void* const memory = allocator.Allocate(total);
  if (memory == nullptr) return nullptr;
  void* const data = static_cast<char*>(memory) + sizeof(Buffer);
  ForObjects(dtype, data, [&](auto* objects) { std::uninitialized_default_construct_n(objects, count); });
  return new (memory) Buffer(&allocator, data, bytes, dtype, count, /*writable=*/true);
}

Buffer* Buffer::Wrap(const void* data, size_t bytes, Release release) {
  // `release` follows the header, where an owned buffer has its elements.
  void* const memory = HostAllocator().Allocate(sizeof(Buffer) + sizeof(Release));
  if (memory == nullptr) {
    if (release) release();
    throw std::bad_alloc();
  }
  new (static_cast<char*>(memory) + sizeof(Buffer)) Release(std::move(release));
  return new (memory) Buffer(nullptr, const_cast<void*>(data), bytes, kInvalid, 0, /*writable=*/false);
}

void Buffer::Destroy() {
  if (allocator_ != nullptr) {
    Allocator& allocator = *allocator_;
    const size_t total = sizeof(Buffer) + bytes_;
    ForObjects(dtype_, data_, [&](auto* objects) { std::destroy_n(objects, count_); });
    this->~Buffer();
    return allocator.Deallocate(this, total);
  }
  auto* const stored = std::launder(reinterpret_cast<Release*>(reinterpret_cast<char*>(this) + sizeof(Buffer)));
  Release release = std::move(*stored);
  stored->~Release();
  this->~Buffer();
  HostAllocator().Deallocate(this, sizeof(Buffer) + sizeof(Release));
  if (release) release();
}

}  // namespace thalweg
