// SPDX-License-Identifier: Apache-2.0
// Memory for tensors. A page fault costs 2 us per 4 KB here, so a fresh 2.6 MB
// buffer costs more than a whole training step of a small network: memory comes
// from huge pages, is kept in size-class free lists and is handed out again.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg {

struct AllocatorStats {
  int64_t bytes_in_use = 0;    // handed out now (rounded up to size classes)
  int64_t peak_bytes = 0;      // most that was ever handed out, give or take what threads cache
  int64_t bytes_reserved = 0;  // taken from the system: in use plus free lists
  int64_t allocations = 0;     // calls to Allocate
  int64_t system_calls = 0;    // allocations that had to ask the system
};

// Where a device's tensors live. Thread-safe.
class Allocator {
 public:
  virtual ~Allocator() = default;

  // Memory of at least `bytes` (0 is allowed), aligned to kAlignment, contents
  // undefined. nullptr if there is none: callers turn that into
  // RESOURCE_EXHAUSTED.
  virtual void* Allocate(size_t bytes) = 0;

  // Takes back what Allocate(bytes) returned; `bytes` must be the same.
  virtual void Deallocate(void* memory, size_t bytes) = 0;

  virtual AllocatorStats Stats() const = 0;

  static constexpr size_t kAlignment = 64;
};

// The process's pool for host memory; like malloc, there is one. Small blocks
// go through per-thread caches, large ones through shared free lists.
Allocator& HostAllocator();

// Gives free blocks of at least `min_bytes` each back to the system. Blocks up
// to 64 KB stay.
void TrimHostAllocator(size_t min_bytes = 0);

}  // namespace thalweg
