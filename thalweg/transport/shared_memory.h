// SPDX-License-Identifier: Apache-2.0
// Memory that two processes see: how bytes go from one task to another on the
// same machine without passing through a socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "thalweg/base/mutex.h"

namespace thalweg {

// Memory that is aligned as tensors are, which can then refer to it.
std::shared_ptr<char> AllocateAligned(size_t bytes);

// A file descriptor of ours, closed at the end.
class FileHandle {
 public:
  FileHandle() = default;
  explicit FileHandle(int fd) : fd_(fd) {}
  FileHandle(FileHandle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileHandle& operator=(FileHandle&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileHandle();
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// A file in memory, mapped. Its size never changes, so that no holder of its
// descriptor can pull it away under the others.
class SharedMemory {
 public:
  static absl::StatusOr<std::shared_ptr<SharedMemory>> Create(size_t bytes);
  // What another process has created. INVALID_ARGUMENT if its size may change.
  static absl::StatusOr<std::shared_ptr<SharedMemory>> Map(FileHandle file) {
    return Map(std::move(file), Access::kWrite);
  }
  // The same, only to be read. The descriptor is closed, and a file that is already mapped so is not mapped again. If
  // the system does not allow another mapping, data() is nullptr, and TakePart() reads from the file.
  static absl::StatusOr<std::shared_ptr<const SharedMemory>> MapToRead(FileHandle file);
  ~SharedMemory();

  int fd() const { return file_.get(); }
  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  enum class Access { kRead, kWrite };
  static absl::StatusOr<std::shared_ptr<SharedMemory>> Map(FileHandle file, Access access);
  SharedMemory(FileHandle file, char* data, size_t bytes) : file_(std::move(file)), data_(data), bytes_(bytes) {}
  FileHandle file_;  // closed if it is mapped and only read
  char* const data_;
  const size_t bytes_;
};

// Bytes that live as long as somebody holds them.
struct HeldBytes {
  const char* data = nullptr;
  size_t size = 0;
  std::shared_ptr<const void> holder;
};

// The sender's side of a shared memory: blocks that it fills and the receiver
// lets go of. A block has a mark in front of it that the receiver clears;
// nothing else there is believed. Thread-safe.
class BlockArena {
 public:
  explicit BlockArena(std::shared_ptr<SharedMemory> memory) : memory_(std::move(memory)) {}
  int fd() const { return memory_->fd(); }

  // Where a block of so many bytes begins; nullopt if there is no room.
  std::optional<uint64_t> Allocate(size_t bytes) { return Allocate(bytes, {}); }
  // A block without bytes, whose mark stands for `held`, which is elsewhere: it is kept until the receiver clears the
  // mark. nullopt if there is no room, or the receiver already holds too much.
  std::optional<uint64_t> Hold(HeldBytes held);
  char* at(uint64_t offset) const { return memory_->data() + offset; }
  // The block is filled. Call it before the receiver learns of the block.
  void Publish(uint64_t offset);
  // The receiver will not see it.
  void Release(uint64_t offset);

  // Lets go of what the receiver has let go of. Returns true if nothing is held for it any more.
  bool Sweep();
  // Lets go of everything that is held: the receiver is gone.
  void ReleaseHeld();

  static constexpr size_t kMaxHeld = 1024;
  static constexpr uint64_t kMaxHeldBytes = uint64_t{8} << 30;

 private:
  struct Block {
    uint64_t end = 0;  // the mark of the block is at its beginning
    HeldBytes held;
  };
  std::optional<uint64_t> Allocate(size_t bytes, HeldBytes held);
  void Erase(std::map<uint64_t, Block>::iterator block, std::vector<HeldBytes>* released)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What was released dies after the lock.
  void SweepLocked(std::vector<HeldBytes>* released) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<SharedMemory> memory_;
  Mutex mutex_;
  std::map<uint64_t, Block> used_ ABSL_GUARDED_BY(mutex_);  // by beginning
  size_t held_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The receiver's side: a block of the sender's arena, which is let go of with its
// last holder. nullopt if there can be no such block.
std::optional<HeldBytes> TakeBlock(const std::shared_ptr<SharedMemory>& memory, uint64_t offset, uint64_t bytes);
// Bytes of a memory; a copy if it is not mapped.
std::optional<HeldBytes> TakePart(const std::shared_ptr<const SharedMemory>& memory, uint64_t offset, uint64_t bytes);
// The same. The last holder clears the mark at `mark` in the sender's arena.
std::optional<HeldBytes> TakeMarkedPart(const std::shared_ptr<const SharedMemory>& memory, uint64_t offset,
                                        uint64_t bytes, const std::shared_ptr<SharedMemory>& arena, uint64_t mark);

}  // namespace thalweg
