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

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "thalweg/base/mutex.h"

namespace thalweg {

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
  static absl::StatusOr<std::shared_ptr<SharedMemory>> Map(FileHandle file);
  ~SharedMemory();

  int fd() const { return file_.get(); }
  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  SharedMemory(FileHandle file, char* data, size_t bytes) : file_(std::move(file)), data_(data), bytes_(bytes) {}
  const FileHandle file_;
  char* const data_;
  const size_t bytes_;
};

// The sender's side of a shared memory: blocks that it fills and the receiver
// lets go of. A block has a mark in front of it that the receiver clears;
// nothing else there is believed. Thread-safe.
class BlockArena {
 public:
  explicit BlockArena(std::shared_ptr<SharedMemory> memory) : memory_(std::move(memory)) {}
  int fd() const { return memory_->fd(); }

  // Where a block of so many bytes begins; nullopt if there is no room.
  std::optional<uint64_t> Allocate(size_t bytes);
  char* at(uint64_t offset) const { return memory_->data() + offset; }
  // The block is filled. Call it before the receiver learns of the block.
  void Publish(uint64_t offset);
  // The receiver will not see it.
  void Release(uint64_t offset);

 private:
  const std::shared_ptr<SharedMemory> memory_;
  Mutex mutex_;
  std::map<uint64_t, uint64_t> used_ ABSL_GUARDED_BY(mutex_);  // beginnings and ends, marks included
};

// Bytes that live as long as somebody holds them.
struct HeldBytes {
  const char* data = nullptr;
  size_t size = 0;
  std::shared_ptr<const void> holder;
};

// The receiver's side: a block of the sender's arena, which is let go of with its
// last holder. nullopt if there can be no such block.
std::optional<HeldBytes> TakeBlock(const std::shared_ptr<SharedMemory>& memory, uint64_t offset, uint64_t bytes);
// The first bytes of a memory.
std::optional<HeldBytes> TakeWhole(const std::shared_ptr<SharedMemory>& memory, uint64_t bytes);

}  // namespace thalweg
