// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/exported_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/time/clock.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/machine_memory.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

constexpr uint64_t kExportPage = 4096;
// How often processes are asked for memory whose links are closed.
constexpr absl::Duration kReclaimEvery = absl::Milliseconds(500);

uint64_t InPages(size_t bytes) { return (uint64_t{bytes} + kExportPage - 1) / kExportPage * kExportPage; }

}  // namespace

ExportedMemory& ExportedMemory::Global() {
  static auto* const memory = new ExportedMemory;  // tensors in static objects may outlive everything else
  return *memory;
}

ExportedMemory::~ExportedMemory() {
  if (begin_ != nullptr) munmap(begin_, options_.addresses);
  if (fd_ >= 0) close(fd_);
}

absl::Status ExportedMemory::Enable() {
  const size_t machine = InPages(MachineMemoryBytes());
  return Enable({.limit = machine / 4, .addresses = machine});
}

absl::Status ExportedMemory::Enable(Options options) {
  MutexLock lock(&mutex_);
  if (enabled_.load(std::memory_order_relaxed)) return absl::OkStatus();
  options.addresses = InPages(options.addresses);
  // A file beyond this limit would end the process with a signal.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < options.addresses) {
    return ResourceExhausted("A file of ", options.addresses, " bytes is more than this process may have");
  }
  const int fd = memfd_create("thalweg-export", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  void* begin = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, static_cast<off_t>(options.addresses)) == 0 &&
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    begin = mmap(nullptr, options.addresses, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  }
  if (begin == MAP_FAILED) {
    const absl::Status status = ResourceExhausted("No memory can be shared with other processes: ", strerror(errno));
    if (fd >= 0) close(fd);
    return status;
  }
  madvise(begin, options.addresses, MADV_HUGEPAGE);  // few systems allow it here
  options_ = options;
  fd_ = fd;
  begin_ = static_cast<char*>(begin);
  enabled_.store(true, std::memory_order_release);
  return absl::OkStatus();
}

void ExportedMemory::Want(size_t bytes) {
  if (bytes < kMinBytes) return;
  WantedSet& set = wanted_[SetOf(bytes)];
  for (auto& way : set) {
    size_t known = 0;
    if (way.compare_exchange_strong(known, bytes, std::memory_order_relaxed) || known == bytes) return;
  }
  set[replaced_.fetch_add(1, std::memory_order_relaxed) % kWays].store(bytes, std::memory_order_relaxed);
}

bool ExportedMemory::HasRoom(size_t bytes) const {
  if (!enabled_.load(std::memory_order_acquire)) return false;
  MutexLock lock(&mutex_);
  return bytes <= options_.limit && InPages(bytes) + in_use_ <= options_.limit;
}

void* ExportedMemory::Allocate(size_t bytes) {
  if (!enabled_.load(std::memory_order_acquire) || bytes > options_.limit) return nullptr;
  const uint64_t need = InPages(bytes);
  for (int attempt = 0;; ++attempt) {
    {
      MutexLock lock(&mutex_);
      std::optional<uint64_t> at;
      if (in_use_ + need <= options_.limit) {
        at = TakeFree(need);
        // New memory has page faults: first see whether memory that was used is free again.
        if (!at.has_value() && attempt > 0 && options_.addresses - top_ >= need) at = std::exchange(top_, top_ + need);
      }
      if (at.has_value()) {
        in_use_ += need;
        return begin_ + *at;
      }
    }
    if (attempt > 0) return nullptr;
    Reclaim();
  }
}

// The lowest place that is free, and has memory if possible.
std::optional<uint64_t> ExportedMemory::TakeFree(uint64_t bytes) {
  for (const bool resident : {true, false}) {
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      const auto [end, is_resident] = it->second;
      const uint64_t begin = it->first;
      if (is_resident != resident || end - begin < bytes) continue;
      free_.erase(it);
      if (end - begin > bytes) free_.emplace(begin + bytes, Range{end, resident});
      if (resident) idle_ = std::min(idle_, resident_free_ -= bytes);
      return begin;
    }
  }
  return std::nullopt;
}

void ExportedMemory::Deallocate(void* memory, size_t bytes) {
  if (memory == nullptr) return;
  const uint64_t begin = static_cast<uint64_t>(static_cast<char*>(memory) - begin_), size = InPages(bytes);
  std::vector<Extent> excess;
  {
    MutexLock lock(&mutex_);
    in_use_ -= size;
    resident_free_ += size;
    AddFree(begin, begin + size, /*resident=*/true);
    if (resident_free_ > options_.slack + in_use_) excess = TakeExcess((options_.slack + in_use_) / 2);
  }
  GiveBack(excess);
}

// Allocate() takes the lowest free memory, so what nobody needs is the highest.
void ExportedMemory::TrimIdle() {
  if (!enabled_.load(std::memory_order_acquire)) return;
  Reclaim();
  std::vector<Extent> excess;
  {
    MutexLock lock(&mutex_);
    excess = TakeExcess(resident_free_ - idle_);
    idle_ = resident_free_;
  }
  GiveBack(excess);
}

void ExportedMemory::AddFree(uint64_t begin, uint64_t end, bool resident) {
  const auto next = free_.lower_bound(begin);
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->second.end == begin && previous->second.resident == resident) {
      begin = previous->first;
      free_.erase(previous);
    }
  }
  if (next != free_.end() && next->first == end && next->second.resident == resident) {
    end = next->second.end;
    free_.erase(next);
  }
  free_.emplace(begin, Range{end, resident});
}

std::vector<ExportedMemory::Extent> ExportedMemory::TakeExcess(uint64_t keep) {
  std::vector<Extent> excess;
  for (auto it = free_.rbegin(); it != free_.rend() && resident_free_ > keep; ++it) {
    const auto [end, resident] = it->second;
    if (!resident) continue;
    const uint64_t bytes = std::min(end - it->first, InPages(resident_free_ - keep));
    resident_free_ -= bytes;
    excess.emplace_back(end - bytes, end);
  }
  for (const auto& [begin, end] : excess) {
    const auto range = std::prev(free_.lower_bound(end));
    if (range->first == begin) {
      free_.erase(range);
    } else {
      range->second.end = begin;
    }
  }
  idle_ = std::min(idle_, resident_free_);
  return excess;
}

// The system takes long for much memory: others allocate meanwhile.
void ExportedMemory::GiveBack(const std::vector<Extent>& excess) {
  for (const auto& [begin, end] : excess) {
    const bool kept = fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                                static_cast<off_t>(end - begin)) != 0;
    MutexLock lock(&mutex_);
    if (kept) resident_free_ += end - begin;
    AddFree(begin, end, kept);
  }
}

bool ExportedMemory::Holds(const void* data, size_t bytes, uint64_t* offset) const {
  if (!enabled_.load(std::memory_order_acquire)) return false;
  const auto address = reinterpret_cast<uintptr_t>(data), begin = reinterpret_cast<uintptr_t>(begin_);
  if (address < begin || address - begin >= options_.addresses || bytes > options_.addresses - (address - begin)) {
    return false;
  }
  if (offset != nullptr) *offset = address - begin;
  return true;
}

void ExportedMemory::Add(const std::shared_ptr<ExportHolder>& holder) {
  MutexLock lock(&holders_mutex_);
  std::erase_if(holders_, [](const auto& entry) { return entry.expired(); });
  holders_.push_back(holder);
}

void ExportedMemory::Adopt(std::shared_ptr<ExportHolder> holder) {
  if (holder->Reclaim()) return;
  MutexLock lock(&holders_mutex_);
  adopted_.push_back(std::move(holder));
  ReclaimLater();
}

void ExportedMemory::ReclaimLater() {
  if (std::exchange(reclaims_later_, true)) return;
  timer_.Set(absl::Now() + kReclaimEvery, [this] {
    Reclaim();
    MutexLock lock(&holders_mutex_);
    reclaims_later_ = false;
    if (!adopted_.empty()) ReclaimLater();
  });
}

void ExportedMemory::Reclaim() {
  std::vector<std::shared_ptr<ExportHolder>> holders, adopted, done;
  {
    MutexLock lock(&holders_mutex_);
    for (const auto& entry : holders_) {
      if (auto holder = entry.lock(); holder != nullptr) holders.push_back(std::move(holder));
    }
    adopted = adopted_;
  }
  for (const auto& holder : holders) holder->Reclaim();
  for (auto& holder : adopted) {
    if (holder->Reclaim()) done.push_back(holder);
  }
  if (done.empty()) return;
  MutexLock lock(&holders_mutex_);
  std::erase_if(adopted_, [&](const auto& entry) { return std::count(done.begin(), done.end(), entry) > 0; });
}

size_t ExportedMemory::bytes_in_use() const {
  MutexLock lock(&mutex_);
  return in_use_;
}

size_t ExportedMemory::bytes_resident() const {
  MutexLock lock(&mutex_);
  return in_use_ + resident_free_;
}

}  // namespace thalweg
