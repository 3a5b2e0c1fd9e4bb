// SPDX-License-Identifier: Apache-2.0
// HostArena: the memory that a member of a group on one host shares with the others
// (transport/host_group.h).
//
// Values that are written there need no copy to take part in an operation. A block keeps the arena
// alive, so values may outlive the group.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "thalweg/base/mutex.h"
#include "thalweg/transport/shared_memory.h"

namespace thalweg {

// Thread-safe. Made by Create() only, because blocks share its ownership.
class HostArena : public std::enable_shared_from_this<HostArena> {
 public:
  // A block of the arena. It is freed with the last copy of `owner`.
  struct Memory {
    char* data = nullptr;
    std::shared_ptr<const void> owner;
  };

  // `bytes` is an upper limit: pages are allocated on first use.
  static absl::StatusOr<std::shared_ptr<HostArena>> Create(size_t bytes);

  // Blocks start at page boundaries. Returns RESOURCE_EXHAUSTED if the arena is full.
  absl::StatusOr<Memory> Allocate(size_t bytes);
  // Whether these bytes lie in the arena.
  bool Owns(const void* data, size_t bytes) const;
  const std::shared_ptr<SharedMemory>& memory() const { return memory_; }

 private:
  explicit HostArena(std::shared_ptr<SharedMemory> memory) : memory_(std::move(memory)) {}

  const std::shared_ptr<SharedMemory> memory_;
  Mutex mutex_;
  std::map<size_t, size_t> used_ ABSL_GUARDED_BY(mutex_);  // begin -> end
};

}  // namespace thalweg
