// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/shared_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
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

absl::StatusOr<char*> MapFile(int fd, size_t bytes, int protection = PROT_READ | PROT_WRITE) {
  void* data = mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);
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

std::shared_ptr<char> AllocateAligned(size_t bytes) {
  const std::shared_ptr<char> held(static_cast<char*>(std::aligned_alloc(kLine, (bytes / kLine + 1) * kLine)),
                                   std::free);
  if (held == nullptr) throw std::bad_alloc();
  return held;
}

absl::StatusOr<std::shared_ptr<SharedMemory>> SharedMemory::Map(FileHandle file, Access access) {
  struct stat stat;
  struct statfs system;
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || fstat(file.get(), &stat) != 0 || stat.st_size <= 0 ||
      fstatfs(file.get(), &system) != 0 || system.f_type != TMPFS_MAGIC) {  // others may have no memory for a page
    return InvalidArgument("This is no memory that can be shared");
  }
  const auto bytes = static_cast<size_t>(stat.st_size);
  const absl::StatusOr<char*> data =
      MapFile(file.get(), bytes, access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE);
  if (!data.ok() && access == Access::kWrite) return data.status();
  return std::shared_ptr<SharedMemory>(new SharedMemory(std::move(file), data.value_or(nullptr), bytes));
}

absl::StatusOr<std::shared_ptr<const SharedMemory>> SharedMemory::MapToRead(FileHandle file) {
  using Identity = std::pair<uint64_t, uint64_t>;  // of a file: device, inode
  struct Mapped {
    Mutex mutex;
    std::map<Identity, std::weak_ptr<const SharedMemory>> files ABSL_GUARDED_BY(mutex);
  };
  static Mapped* const mapped = new Mapped;
  struct stat stat;
  if (fstat(file.get(), &stat) != 0) return InvalidArgument("This is no memory that can be shared");
  const Identity identity(stat.st_dev, stat.st_ino);
  MutexLock lock(&mapped->mutex);
  std::erase_if(mapped->files, [](const auto& entry) { return entry.second.expired(); });
  auto& known = mapped->files[identity];
  if (auto memory = known.lock(); memory != nullptr) return memory;
  ASSIGN_OR_RETURN(std::shared_ptr<SharedMemory> memory, Map(std::move(file), Access::kRead));
  if (memory->data() == nullptr) return memory;
  const FileHandle closed = std::move(memory->file_);
  known = memory;
  return std::shared_ptr<const SharedMemory>(std::move(memory));
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

std::optional<uint64_t> BlockArena::Allocate(size_t bytes, HeldBytes held) {
  const uint64_t need = kLine + (bytes + kLine - 1) / kLine * kLine;
  std::vector<HeldBytes> released;  // dies after the lock
  MutexLock lock(&mutex_);
  SweepLocked(&released);
  const bool holds = held.holder != nullptr;
  if (holds && (held_ >= kMaxHeld || held.size > kMaxHeldBytes - held_bytes_)) return std::nullopt;
  // The lowest place that is free: memory that was used is used again.
  uint64_t begin = 0;
  for (const auto& [used_begin, block] : used_) {
    if (used_begin - begin >= need) break;
    begin = block.end;
  }
  if (memory_->bytes() - begin < need) return std::nullopt;
  if (holds) {
    ++held_;
    held_bytes_ += held.size;
  }
  used_.emplace(begin, Block{begin + need, std::move(held)});
  MarkOf(at(begin) + kLine).store(1, std::memory_order_relaxed);
  return begin + kLine;
}

std::optional<uint64_t> BlockArena::Hold(HeldBytes held) { return Allocate(0, std::move(held)); }

void BlockArena::Erase(std::map<uint64_t, Block>::iterator block, std::vector<HeldBytes>* released) {
  if (block->second.held.holder != nullptr) {
    --held_;
    held_bytes_ -= block->second.held.size;
    released->push_back(std::move(block->second.held));
  }
  used_.erase(block);
}

void BlockArena::SweepLocked(std::vector<HeldBytes>* released) {
  for (auto it = used_.begin(); it != used_.end();) {
    const auto block = it++;
    if (MarkOf(at(block->first) + kLine).load(std::memory_order_acquire) == 0) Erase(block, released);
  }
}

bool BlockArena::Sweep() {
  std::vector<HeldBytes> released;
  MutexLock lock(&mutex_);
  if (held_ > 0) SweepLocked(&released);
  return held_ == 0;
}

void BlockArena::ReleaseHeld() {
  std::vector<HeldBytes> released;
  MutexLock lock(&mutex_);
  for (auto it = used_.begin(); it != used_.end();) {
    const auto block = it++;
    if (block->second.held.holder != nullptr) Erase(block, &released);
  }
}

// Whoever fills this memory next has read the mark, and so comes after this. The receiver, which clears the mark in
// between, orders both too, but through another mapping of the memory: tools that check for races do not see that.
void BlockArena::Publish(uint64_t offset) { MarkOf(at(offset)).store(1, std::memory_order_release); }

void BlockArena::Release(uint64_t offset) {
  std::vector<HeldBytes> released;
  MutexLock lock(&mutex_);
  if (const auto block = used_.find(offset - kLine); block != used_.end()) Erase(block, &released);
}

namespace {

bool IsBlock(const SharedMemory& arena, uint64_t offset, uint64_t bytes) {
  return offset >= kLine && offset % kLine == 0 && offset <= arena.bytes() && bytes <= arena.bytes() - offset;
}

}  // namespace

std::optional<HeldBytes> TakeBlock(const std::shared_ptr<SharedMemory>& memory, uint64_t offset, uint64_t bytes) {
  if (!IsBlock(*memory, offset, bytes)) return std::nullopt;
  char* block = memory->data() + offset;
  return HeldBytes{block, bytes, std::shared_ptr<const void>(block, [memory](char* held) {
                     MarkOf(held).store(0, std::memory_order_release);
                   })};
}

std::optional<HeldBytes> TakePart(const std::shared_ptr<const SharedMemory>& memory, uint64_t offset, uint64_t bytes) {
  if (offset > memory->bytes() || bytes > memory->bytes() - offset) return std::nullopt;
  if (memory->data() != nullptr) return HeldBytes{memory->data() + offset, bytes, memory};
  const std::shared_ptr<char> copy = AllocateAligned(bytes);
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t n = pread(memory->fd(), copy.get() + done, bytes - done, static_cast<off_t>(offset + done));
    if (n == 0 || (n < 0 && errno != EINTR)) return std::nullopt;
    done += static_cast<uint64_t>(std::max<ssize_t>(n, 0));
  }
  return HeldBytes{copy.get(), bytes, copy};
}

std::optional<HeldBytes> TakeMarkedPart(const std::shared_ptr<const SharedMemory>& memory, uint64_t offset,
                                        uint64_t bytes, const std::shared_ptr<SharedMemory>& arena, uint64_t mark) {
  if (!IsBlock(*arena, mark, 0)) return std::nullopt;
  std::optional<HeldBytes> part = TakePart(memory, offset, bytes);
  if (!part.has_value()) return std::nullopt;
  std::shared_ptr<const void> marked(arena->data() + mark,
                                     [memory, arena](char* held) { MarkOf(held).store(0, std::memory_order_release); });
  if (memory->data() != nullptr) part->holder = std::move(marked);
  return part;
}

}  // namespace thalweg
