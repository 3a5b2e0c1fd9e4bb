// SPDX-License-Identifier: Apache-2.0
// Copies elements without regard to their meaning, which most array ops do. Numbers are dispatched
// by size, so that a loop is compiled five times and not once per type.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "absl/types/span.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/tensor/resource_handle.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// A 16-byte element, such as a complex128.
struct Bits128 {
  uint64_t low = 0;
  uint64_t high = 0;
  friend bool operator==(const Bits128&, const Bits128&) = default;
};

// Runs `f` for a C++ type with which elements of `dtype` can be copied: an unsigned integer of the
// same size; strings, resources and variants as themselves.
template <typename F>
absl::Status DispatchBySize(DType dtype, F&& f) {
  switch (ElementSize(dtype)) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    case 8:
      return f.template operator()<uint64_t>();
    case 16:
      return f.template operator()<Bits128>();
    default:
      break;
  }
  switch (dtype) {
    case kString:
      return f.template operator()<std::string>();
    case kResource:
      return f.template operator()<ResourceHandle>();
    case kVariant:
      return f.template operator()<Variant>();
    default:
      return Unimplemented("no kernel for type ", dtype);
  }
}

// The elements of a tensor as such a type.
template <typename T>
const T* ElementData(const Tensor& t) {
  return static_cast<const T*>(t.raw());
}
template <typename T>
T* MutableElementData(Tensor* t) {
  return static_cast<T*>(t->raw());
}

// A memcpy that is also fast for a few bytes.
inline void CopyBytes(const void* from, size_t n, void* to) {
  const char* const f = static_cast<const char*>(from);
  char* const t = static_cast<char*>(to);
  if (n > 64) {
    memcpy(t, f, n);
  } else if (n >= 16) {
    for (size_t i = 0; i + 16 <= n; i += 16) memcpy(t + i, f + i, 16);
    memcpy(t + n - 16, f + n - 16, 16);
  } else if (n >= 8) {
    memcpy(t, f, 8);
    memcpy(t + n - 8, f + n - 8, 8);
  } else if (n >= 4) {
    memcpy(t, f, 4);
    memcpy(t + n - 4, f + n - 4, 4);
  } else if (n > 0) {
    t[0] = f[0];
    if (n > 1) t[1] = f[1];
    if (n > 2) t[2] = f[2];
  }
}

// Copies n elements. REQUIRES: no overlap.
template <typename T>
void CopyElements(const T* from, int64_t n, T* to) {
  if constexpr (std::is_trivially_copyable_v<T>) {
    CopyBytes(from, n * sizeof(T), to);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
  }
}

// An offset in a tensor and a stride per dimension, in elements. A stride of 0 repeats, a negative
// one goes backwards.
struct StridedPlace {
  int64_t offset = 0;
  Dims strides;
};

// The strides of a row-major tensor.
Dims RowMajorStrides(absl::Span<const int64_t> dims);

// to[to_place(i)] = from[from_place(i)] for every index i below `dims`, in parallel if that pays.
// REQUIRES: both tensors have the same type, all positions are inside of them, and no two indices
// have the same position in `to`.
absl::Status CopyStrided(KernelContext& c, absl::Span<const int64_t> dims, const Tensor& from,
                         const StridedPlace& from_place, Tensor* to, const StridedPlace& to_place);

// Concatenates rows: row r of `to` consists of row r of input `first`, row r of input first + 1, and
// so on. Input first + i has widths[i] elements per row. REQUIRES: types and sizes fit.
absl::Status ConcatRows(KernelContext& c, int first, absl::Span<const int64_t> widths, int64_t rows, Tensor* to);

// Whether a view of `count` elements should share the buffer instead of copying. Copying a small
// output is cheaper: its slot keeps its memory from step to step unless it is shared.
inline bool WorthSharing(DType dtype, int64_t count) {
  constexpr int64_t kBytes = 256;
  return count * static_cast<int64_t>(Buffer::Stride(dtype)) > kBytes;
}

// Sets all elements to zero, the empty string, or an empty handle or variant.
void ClearElements(Tensor* t);
// Sets all elements to `value`, one element of the same type.
absl::Status FillElements(KernelContext& c, const Tensor& value, Tensor* t);

}  // namespace thalweg
