// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/host_arena.h"

#include <algorithm>
#include <utility>

#include "thalweg/base/status.h"

namespace thalweg {
namespace {

constexpr size_t kArenaPage = 4096;

}  // namespace

absl::StatusOr<std::shared_ptr<HostArena>> HostArena::Create(size_t bytes) {
  ASSIGN_OR_RETURN(std::shared_ptr<SharedMemory> memory, SharedMemory::Create(std::max(bytes, kArenaPage)));
  return std::shared_ptr<HostArena>(new HostArena(std::move(memory)));
}

absl::StatusOr<HostArena::Memory> HostArena::Allocate(size_t bytes) {
  const size_t need = (std::max<size_t>(bytes, 1) + kArenaPage - 1) / kArenaPage * kArenaPage;
  const size_t size = memory_->bytes();
  size_t begin = 0;
  {
    MutexLock lock(&mutex_);
    // First fit, so that pages that were touched before are reused.
    for (const auto& [used_begin, used_end] : used_) {
      if (used_begin - begin >= need) break;
      begin = used_end;
    }
    if (need < bytes || size < begin || size - begin < need) {
      return ResourceExhausted("The memory that this member shares with its group has no room for ", bytes, " of its ",
                               size, " bytes");
    }
    used_.emplace(begin, begin + need);
  }
  char* const data = memory_->data() + begin;
  return Memory{data, std::shared_ptr<const void>(data, [self = shared_from_this(), begin](const void*) {
                  MutexLock lock(&self->mutex_);
                  self->used_.erase(begin);
                })};
}

bool HostArena::Owns(const void* data, size_t bytes) const {
  const char* const begin = memory_->data();
  const char* const end = begin + memory_->bytes();
  const char* const at = static_cast<const char*>(data);
  return at >= begin && at <= end && bytes <= static_cast<size_t>(end - at);
}

}  // namespace thalweg
