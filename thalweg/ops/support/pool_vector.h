// SPDX-License-Identifier: Apache-2.0
// A vector with memory from the tensors' pool. For the scratch memory of kernels, so that a warm step makes
// no large malloc calls.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#include "thalweg/base/memory.h"

namespace thalweg {

template <typename T>
class PoolAllocator {
 public:
  using value_type = T;
  PoolAllocator() = default;
  template <typename U>
  PoolAllocator(const PoolAllocator<U>&) {}  // NOLINT: of any type, as the standard asks

  T* allocate(size_t n) {
    void* const memory = HostAllocator().Allocate(n * sizeof(T));
    if (memory == nullptr) throw std::bad_alloc();  // as std::vector expects
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t n) { HostAllocator().Deallocate(memory, n * sizeof(T)); }
  friend bool operator==(const PoolAllocator&, const PoolAllocator&) { return true; }
};

template <typename T>
using PoolVector = std::vector<T, PoolAllocator<T>>;

}  // namespace thalweg
