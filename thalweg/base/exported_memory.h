// SPDX-License-Identifier: Apache-2.0
// Memory of this process that other processes of the host can map.
//
// A tensor that lies there is sent to them by naming its place: it is not copied. The sender keeps it alive
// until the receiver has released it.
//
// Only tensors of sizes that were sent before are allocated there. Other memory comes from huge pages, which the
// system does not give to memory that is shared.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/timer.h"

namespace thalweg {

// Keeps exported memory alive on behalf of a process that reads it.
class ExportHolder {
 public:
  virtual ~ExportHolder() = default;
  // Lets go of the memory that the reader no longer uses. Returns true if nothing is held any more.
  virtual bool Reclaim() = 0;
};

// Thread-safe.
class ExportedMemory {
 public:
  // Smaller tensors are cheap to copy.
  static constexpr size_t kMinBytes = size_t{64} << 10;

  struct Options {
    size_t limit = 0;                  // of the bytes that are allocated; beyond it, Allocate() returns nullptr
    size_t addresses = 0;              // of the file, at least `limit`: more are used if the free space is in pieces
    size_t slack = size_t{256} << 20;  // free memory that the system does not get back, beside as much as is used
  };
  // The process's own. Nothing is allocated there before Enable().
  static ExportedMemory& Global();

  ExportedMemory() = default;
  ~ExportedMemory();
  ExportedMemory(const ExportedMemory&) = delete;
  ExportedMemory& operator=(const ExportedMemory&) = delete;

  // To be called by processes that send tensors to others on the host. The second call has no effect.
  // RESOURCE_EXHAUSTED if the system does not allow it: then everything is copied.
  absl::Status Enable(Options options);
  absl::Status Enable();  // a quarter of the machine's memory

  // A tensor of this size was sent, and had to be copied: the next ones of this size should be allocated here.
  void Want(size_t bytes);
  bool Wants(size_t bytes) const {
    return bytes >= kMinBytes && enabled_.load(std::memory_order_acquire) &&
           std::ranges::any_of(wanted_[SetOf(bytes)],
                               [bytes](const auto& way) { return way.load(std::memory_order_relaxed) == bytes; });
  }

  // Whether so many bytes are below the limit.
  bool HasRoom(size_t bytes) const;
  // Page-aligned memory; nullptr if there is none.
  void* Allocate(size_t bytes);
  void Deallocate(void* memory, size_t bytes);  // `bytes` as in Allocate()

  // True if all these bytes lie here. `offset` is where in the file.
  bool Holds(const void* data, size_t bytes, uint64_t* offset = nullptr) const;
  // REQUIRES: Holds() was true for something.
  int fd() const { return fd_; }

  // Reclaim() asks the holder, as long as it lives.
  void Add(const std::shared_ptr<ExportHolder>& holder);
  // Keeps the holder until it holds nothing any more, and asks it now and then.
  void Adopt(std::shared_ptr<ExportHolder> holder);
  // Lets go of what no reader uses any more.
  void Reclaim();
  // Gives the memory that was free since the previous call back to the system.
  void TrimIdle();

  size_t bytes_in_use() const;
  size_t bytes_resident() const;  // in use, or free and not returned to the system

 private:
  struct Range {
    uint64_t end = 0;
    bool resident = false;
  };
  using Extent = std::pair<uint64_t, uint64_t>;  // begin and end
  // The sizes that were sent last, in sets by their hash.
  static constexpr size_t kWays = 4;
  using WantedSet = std::array<std::atomic<size_t>, kWays>;
  static size_t SetOf(size_t bytes) { return (bytes * 0x9e3779b97f4a7c15) >> 58; }
  std::optional<uint64_t> TakeFree(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddFree(uint64_t begin, uint64_t end, bool resident) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the highest free memory out of the free space, for GiveBack(), so that `keep` bytes are left.
  std::vector<Extent> TakeExcess(uint64_t keep) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives memory back to the system, without the lock, and adds it to the free space.
  void GiveBack(const std::vector<Extent>& excess);
  void ReclaimLater() ABSL_EXCLUSIVE_LOCKS_REQUIRED(holders_mutex_);

  std::atomic<bool> enabled_{false};
  std::array<WantedSet, 64> wanted_{};
  std::atomic<size_t> replaced_{0};
  // Constant once enabled.
  Options options_;
  int fd_ = -1;
  char* begin_ = nullptr;

  mutable Mutex mutex_;
  std::map<uint64_t, Range> free_ ABSL_GUARDED_BY(mutex_);  // by beginning; below top_
  uint64_t top_ ABSL_GUARDED_BY(mutex_) = 0;                // nothing above was ever used
  uint64_t in_use_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t resident_free_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t idle_ ABSL_GUARDED_BY(mutex_) = 0;  // the smallest resident_free_ since TrimIdle()

  Mutex holders_mutex_;
  std::vector<std::weak_ptr<ExportHolder>> holders_ ABSL_GUARDED_BY(holders_mutex_);
  std::vector<std::shared_ptr<ExportHolder>> adopted_ ABSL_GUARDED_BY(holders_mutex_);
  bool reclaims_later_ ABSL_GUARDED_BY(holders_mutex_) = false;
  Timer timer_;  // last: its closures use the rest
};

}  // namespace thalweg
