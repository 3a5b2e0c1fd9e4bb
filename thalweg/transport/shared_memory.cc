// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "thalweg/base/status.h"

namespace thalweg {
namespace {

// A mark and what keeps the block behind it on a cache line of its own.
constexpr uint64_t kLine = 64;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

using Mark = std::atomic<uint32_t>;
static_assert(Mark::is_always_lock_free && sizeof(Mark) == sizeof(uint32_t));
Mark& MarkOf(char* block) { return *reinterpret_cast<Mark*>(block - kLine); }

absl::StatusOr<char*> MapFile(int fd, size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return ResourceExhausted("Cannot map ", bytes, " bytes of memory: ", std::strerror(errno));
  return static_cast<char*>(data);
}

}  // namespace

FileHandle::~FileHandle() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<std::shared_ptr<SharedMemory>> SharedMemory::Create(size_t bytes) {
  FileHandle file(memfd_create("thalweg", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid() || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, kSeals | F_SEAL_SEAL) != 0) {
    return ResourceExhausted("Cannot share ", bytes, " bytes of memory: ", std::strerror(errno));
  }
  ASSIGN_OR_RETURN(char* data, MapFile(file.get(), bytes));
  return std::shared_ptr<SharedMemory>(new SharedMemory(std::move(file), data, bytes));
}

absl::StatusOr<std::shared_ptr<SharedMemory>> SharedMemory::Map(FileHandle file) {
  struct stat stat;
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || fstat(file.get(), &stat) != 0 || stat.st_size <= 0) {
    return InvalidArgument("This is no memory that can be shared");
  }
  ASSIGN_OR_RETURN(char* data, MapFile(file.get(), static_cast<size_t>(stat.st_size)));
  return std::shared_ptr<SharedMemory>(new SharedMemory(std::move(file), data, static_cast<size_t>(stat.st_size)));
}

SharedMemory::~SharedMemory() { munmap(data_, bytes_); }

std::optional<uint64_t> BlockArena::Allocate(size_t bytes) {
  const uint64_t need = kLine + (bytes + kLine - 1) / kLine * kLine;
  MutexLock lock(&mutex_);
  std::erase_if(
      used_, [&](const auto& block) { return MarkOf(at(block.first) + kLine).load(std::memory_order_acquire) == 0; });
  // The lowest place that is free: memory that was used is used again.
  uint64_t begin = 0;
  for (const auto& [used_begin, used_end] : used_) {
    if (used_begin - begin >= need) break;
    begin = used_end;
  }
  if (memory_->bytes() - begin < need) return std::nullopt;
  used_.emplace(begin, begin + need);
  MarkOf(at(begin) + kLine).store(1, std::memory_order_relaxed);
  return begin + kLine;
}

// Whoever fills this memory next has read the mark, and so comes after this. The receiver, which clears the mark in
// between, orders both too, but through another mapping of the memory: tools that check for races do not see that.
void BlockArena::Publish(uint64_t offset) { MarkOf(at(offset)).store(1, std::memory_order_release); }

void BlockArena::Release(uint64_t offset) {
  MutexLock lock(&mutex_);
  used_.erase(offset - kLine);
}

std::optional<HeldBytes> TakeBlock(const std::shared_ptr<SharedMemory>& memory, uint64_t offset, uint64_t bytes) {
  if (offset < kLine || offset % kLine != 0 || offset > memory->bytes() || bytes > memory->bytes() - offset) {
    return std::nullopt;
  }
  char* block = memory->data() + offset;
  return HeldBytes{block, bytes, std::shared_ptr<const void>(block, [memory](char* held) {
                     MarkOf(held).store(0, std::memory_order_release);
                   })};
}

std::optional<HeldBytes> TakeWhole(const std::shared_ptr<SharedMemory>& memory, uint64_t bytes) {
  if (bytes > memory->bytes()) return std::nullopt;
  return HeldBytes{memory->data(), bytes, memory};
}

}  // namespace thalweg
