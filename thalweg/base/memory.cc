// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <new>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/exported_memory.h"
#include "thalweg/base/idle_memory.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/machine_memory.h"
#include "thalweg/base/mutex.h"

#if defined(__SANITIZE_ADDRESS__)
#define THALWEG_ASAN_ 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define THALWEG_ASAN_ 1
#endif
#endif
#ifndef THALWEG_ASAN_
#define THALWEG_ASAN_ 0
#endif

namespace thalweg {
namespace {

constexpr size_t kKilobyte = size_t{1} << 10;
constexpr size_t kMegabyte = size_t{1} << 20;
constexpr size_t kPage = 4 * kKilobyte;
constexpr size_t kHugePage = 2 * kMegabyte;

// Sizes are rounded up to classes: steps of 64 bytes to 1 KB, 4 per doubling to
// 2 MB, 8 per doubling above, where waste hurts more. Three kinds of blocks:
//   small   to 64 KB: cut from regions, cached per thread
//   medium  below 2 MB: cut from regions, one shared free list per class
//   large   from 2 MB: a mapping each, one shared free list per class
constexpr size_t kMaxBytes = size_t{1} << 46;
constexpr int kSmallClasses = 40;
constexpr int kLargeClass = 59;  // the first one
constexpr int kClasses = 260;

constexpr int ClassOf(size_t bytes) {
  if (bytes <= kKilobyte) return bytes == 0 ? 0 : static_cast<int>((bytes - 1) >> 6);
  const size_t n = bytes - 1;
  const int top = std::bit_width(n) - 1;
  if (bytes <= kHugePage) return 16 + (top - 10) * 4 + static_cast<int>((n >> (top - 2)) & 3);
  return 60 + (top - 21) * 8 + static_cast<int>((n >> (top - 3)) & 7);
}

constexpr size_t SizeOf(int c) {
  if (c < 16) return size_t{64} * (c + 1);
  if (c < 60) return size_t{5u + (c - 16) % 4} << ((c - 16) / 4 + 8);
  return size_t{9u + (c - 60) % 8} << ((c - 60) / 8 + 18);
}
static_assert(SizeOf(kSmallClasses - 1) == 64 * kKilobyte && ClassOf(64 * kKilobyte) == kSmallClasses - 1);
static_assert(SizeOf(kLargeClass) == kHugePage && ClassOf(kHugePage) == kLargeClass);
static_assert(ClassOf(kMaxBytes) == kClasses - 1 && SizeOf(kClasses - 1) == kMaxBytes);

// Raises `peak` to `value`.
void Raise(std::atomic<int64_t>& peak, int64_t value) {
  int64_t seen = peak.load(std::memory_order_relaxed);
  while (seen < value && !peak.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

#if THALWEG_ASAN_

// Blocks straight from malloc and of the exact size, so that the sanitizer sees
// overflows and uses after free.
class HostPool final : public Allocator {
 public:
  void* Allocate(size_t bytes) override {
    constexpr size_t kSanitizerLimit = size_t{1} << 38;  // the sanitizer aborts above its own limit
    void* memory = nullptr;
    if (bytes > kSanitizerLimit || posix_memalign(&memory, kAlignment, std::max<size_t>(bytes, 1)) != 0) return nullptr;
    allocations_.fetch_add(1, std::memory_order_relaxed);
    const auto size = static_cast<int64_t>(SizeOf(ClassOf(bytes)));
    Raise(peak_bytes_, bytes_in_use_.fetch_add(size, std::memory_order_relaxed) + size);
    return memory;
  }

  void Deallocate(void* memory, size_t bytes) override {
    if (memory == nullptr) return;
    bytes_in_use_.fetch_sub(static_cast<int64_t>(SizeOf(ClassOf(bytes))), std::memory_order_relaxed);
    free(memory);
  }

  AllocatorStats Stats() const override {
    const int64_t in_use = bytes_in_use_.load(std::memory_order_relaxed);
    return {.bytes_in_use = in_use,
            .peak_bytes = peak_bytes_.load(std::memory_order_relaxed),
            .bytes_reserved = in_use,
            .allocations = allocations_.load(std::memory_order_relaxed)};
  }

  void Trim(size_t min_bytes) {}
  void TrimIdle() {}

 private:
  std::atomic<int64_t> bytes_in_use_{0};
  std::atomic<int64_t> peak_bytes_{0};
  std::atomic<int64_t> allocations_{0};
};

#else

constexpr size_t kMaxSmall = SizeOf(kSmallClasses - 1);

constexpr auto kSmallSizes = [] {
  std::array<uint32_t, kSmallClasses> sizes{};
  for (int c = 0; c < kSmallClasses; ++c) sizes[c] = static_cast<uint32_t>(SizeOf(c));
  return sizes;
}();

// By units of 64 bytes: quicker than ClassOf().
constexpr auto kSmallClassOf = [] {
  std::array<uint8_t, kMaxSmall / 64 + 1> classes{};
  for (size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<uint8_t>(ClassOf(i * 64));
  return classes;
}();

constexpr size_t kRegionBytes = 16 * kMegabyte;
constexpr size_t kLargeSlack = 256 * kMegabyte;

// The header of a free block.
struct FreeBlock {
  FreeBlock* next;
  size_t returned;  // medium blocks: bytes of it whose pages the system has back
};

// Free blocks of one class, shared by all threads. The last one that came is the first to go, so those that nobody
// needs are at the end.
struct alignas(64) FreeList {
  Mutex lock;
  FreeBlock* head ABSL_GUARDED_BY(lock) = nullptr;
  // Not counted for small blocks, which come and go in batches.
  int64_t count ABSL_GUARDED_BY(lock) = 0;
  int64_t idle ABSL_GUARDED_BY(lock) = 0;  // the smallest count since FindIdle()

  // Medium and large blocks.
  void PushOne(FreeBlock* block) {
    MutexLock held(&lock);
    block->next = head;
    head = block;
    ++count;
  }
  FreeBlock* Pop() {
    MutexLock held(&lock);
    FreeBlock* const block = head;
    if (block == nullptr) return nullptr;
    head = block->next;
    idle = std::min(idle, --count);
    return block;
  }
  // Where the list points to the first block that was here since the last call, or to nullptr.
  FreeBlock** FindIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock) {
    FreeBlock** at = &head;
    for (int64_t used = count - idle; used > 0; --used) at = &(*at)->next;
    idle = count;
    return at;
  }
  FreeBlock* TakeIdle() {
    MutexLock held(&lock);
    const int64_t taken = idle;
    FreeBlock* const blocks = std::exchange(*FindIdle(), nullptr);
    idle = count -= taken;
    return blocks;
  }
  FreeBlock* TakeAll() {
    MutexLock held(&lock);
    count = idle = 0;
    return std::exchange(head, nullptr);
  }

  // Small blocks.
  void PushSome(FreeBlock* first, FreeBlock* last) {
    MutexLock held(&lock);
    last->next = head;
    head = first;
  }
  // Up to `count` blocks as a list, and how many there are.
  std::pair<FreeBlock*, uint32_t> PopSome(uint32_t count) {
    MutexLock held(&lock);
    FreeBlock* const first = head;
    if (first == nullptr) return {nullptr, 0};
    FreeBlock* last = first;
    uint32_t n = 1;
    for (; n < count && last->next != nullptr; ++n) last = last->next;
    head = last->next;
    last->next = nullptr;
    return {first, n};
  }
};

// Blocks move between a thread and the shared list in batches; a thread keeps
// at most two batches of a class.
constexpr uint32_t BatchOf(int c) { return std::clamp<uint32_t>(32 * kKilobyte / SizeOf(c), 1, 32); }

// A thread's own free blocks of one class. A limit of 0 sends every
// Deallocate to the slow path: the thread is not registered, or is gone.
struct Bin {
  FreeBlock* head;
  uint32_t count;
  uint32_t limit;
};

// Only its own thread writes to it. A trivial type, so that access needs no initialization
// guard; ThreadExit below replaces a destructor.
struct ThreadCache {
  enum class State : uint8_t { kNew, kRegistered, kGone };

  std::array<Bin, kSmallClasses> bins;
  // Since the last Fold(): handed out less taken back, and calls to Allocate.
  std::atomic<int64_t> bytes;
  std::atomic<int64_t> allocations;
  ThreadCache* previous;
  ThreadCache* next;
  State state;

  // Cheaper than fetch_add, and safe because no other thread writes.
  void Count(int64_t more_bytes, int64_t more_allocations) {
    bytes.store(bytes.load(std::memory_order_relaxed) + more_bytes, std::memory_order_relaxed);
    allocations.store(allocations.load(std::memory_order_relaxed) + more_allocations, std::memory_order_relaxed);
  }
};

constinit thread_local ThreadCache thread_cache{};

// `bytes` of fresh memory, aligned to and advised for huge pages; nullptr if
// the system has none.
void* Map(size_t bytes) {
  void* const mapped = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t aligned = (begin + kHugePage - 1) & ~(kHugePage - 1);
  if (aligned > begin) munmap(mapped, aligned - begin);
  if (begin + kHugePage > aligned) munmap(reinterpret_cast<void*>(aligned + bytes), begin + kHugePage - aligned);
  void* const memory = reinterpret_cast<void*>(aligned);
  madvise(memory, bytes, MADV_HUGEPAGE);  // without support, small pages are used
  return memory;
}

class HostPool final : public Allocator {
 public:
  void* Allocate(size_t bytes) override {
    if (bytes <= kMaxSmall) [[likely]] {
      const int c = kSmallClassOf[(bytes + 63) / 64];
      ThreadCache& cache = thread_cache;
      Bin& bin = cache.bins[c];
      FreeBlock* const block = bin.head;
      if (block == nullptr) [[unlikely]]
        return AllocateSmall(cache, c);
      bin.head = block->next;
      --bin.count;
      cache.Count(kSmallSizes[c], 1);
      return block;
    }
    return AllocateShared(bytes);
  }

  void Deallocate(void* memory, size_t bytes) override {
    if (memory == nullptr) return;
    auto* const block = static_cast<FreeBlock*>(memory);
    if (bytes <= kMaxSmall) [[likely]] {
      const int c = kSmallClassOf[(bytes + 63) / 64];
      ThreadCache& cache = thread_cache;
      Bin& bin = cache.bins[c];
      block->next = bin.head;
      bin.head = block;
      cache.Count(-static_cast<int64_t>(kSmallSizes[c]), 0);
      if (++bin.count > bin.limit) [[unlikely]]
        FlushSmall(cache, c);
      return;
    }
    DeallocateShared(block, ClassOf(bytes));
  }

  AllocatorStats Stats() const override;
  void Trim(size_t min_bytes);
  void TrimIdle();
  void Leave(ThreadCache& cache);

 private:
  void* AllocateSmall(ThreadCache& cache, int c);
  void FlushSmall(ThreadCache& cache, int c);
  void* AllocateShared(size_t bytes);
  void DeallocateShared(FreeBlock* block, int c);
  void* AllocateMedium(int c);
  void* MapWithin(size_t bytes);
  void* AllocateLarge(int c);
  void GiveBack(int c, FreeBlock* first);
  void Unmap(int c, FreeBlock* first);

  void Register(ThreadCache& cache);
  void Fold(ThreadCache& cache);
  char* Carve(size_t bytes);
  void Donate(char* begin, char* end);

  std::array<FreeList, kClasses> free_;

  Mutex region_lock_;
  char* region_begin_ ABSL_GUARDED_BY(region_lock_) = nullptr;  // the rest that is not cut yet
  char* region_end_ ABSL_GUARDED_BY(region_lock_) = nullptr;

  mutable Mutex threads_lock_;
  ThreadCache* threads_ ABSL_GUARDED_BY(threads_lock_) = nullptr;

  // Without what the threads have not folded yet.
  std::atomic<int64_t> bytes_in_use_{0};
  std::atomic<int64_t> allocations_{0};
  std::atomic<int64_t> peak_bytes_{0};
  std::atomic<int64_t> bytes_reserved_{0};
  std::atomic<int64_t> large_free_bytes_{0};
  std::atomic<int64_t> system_calls_{0};
};

HostPool& Pool();

// Gives a thread's blocks back when it ends. What it frees after that (in
// destructors of other thread_locals) goes straight to the shared lists.
struct ThreadExit {
  bool armed = false;
  ~ThreadExit() {
    if (armed) Pool().Leave(thread_cache);
  }
};
thread_local ThreadExit thread_exit;

void HostPool::Register(ThreadCache& cache) {
  thread_exit.armed = true;
  for (int c = 0; c < kSmallClasses; ++c) cache.bins[c].limit = 2 * BatchOf(c);
  cache.state = ThreadCache::State::kRegistered;
  MutexLock held(&threads_lock_);
  cache.next = threads_;
  if (threads_ != nullptr) threads_->previous = &cache;
  threads_ = &cache;
}

void HostPool::Leave(ThreadCache& cache) {
  cache.state = ThreadCache::State::kGone;
  for (int c = 0; c < kSmallClasses; ++c) {
    cache.bins[c].limit = 0;
    FlushSmall(cache, c);
  }
  MutexLock held(&threads_lock_);
  Fold(cache);
  if (cache.next != nullptr) cache.next->previous = cache.previous;
  (cache.previous != nullptr ? cache.previous->next : threads_) = cache.next;
}

// Adds a thread's counts to the totals.
void HostPool::Fold(ThreadCache& cache) {
  const int64_t bytes = cache.bytes.load(std::memory_order_relaxed);
  const int64_t allocations = cache.allocations.load(std::memory_order_relaxed);
  cache.Count(-bytes, -allocations);
  allocations_.fetch_add(allocations, std::memory_order_relaxed);
  Raise(peak_bytes_, bytes_in_use_.fetch_add(bytes, std::memory_order_relaxed) + bytes);
}

void* HostPool::AllocateSmall(ThreadCache& cache, int c) {
  if (cache.state == ThreadCache::State::kNew) Register(cache);
  // A thread that is gone must not cache: one block is all it takes.
  const uint32_t batch = cache.state == ThreadCache::State::kGone ? 1 : BatchOf(c);
  auto [block, count] = free_[c].PopSome(batch);
  if (block == nullptr) {
    const size_t size = SizeOf(c);
    char* const memory = Carve(size * batch);
    if (memory == nullptr) return nullptr;
    for (uint32_t i = batch; i-- > 0;) block = new (memory + i * size) FreeBlock{block, 0};
    count = batch;
  }
  cache.bins[c].head = block->next;
  cache.bins[c].count = count - 1;
  cache.Count(static_cast<int64_t>(SizeOf(c)), 1);
  Fold(cache);
  return block;
}

// Takes a batch out of a bin that is over its limit; everything if the thread
// is gone.
void HostPool::FlushSmall(ThreadCache& cache, int c) {
  if (cache.state == ThreadCache::State::kNew) return Register(cache);
  Bin& bin = cache.bins[c];
  const uint32_t count = cache.state == ThreadCache::State::kGone ? bin.count : BatchOf(c);
  if (count > 0) {
    FreeBlock* const first = bin.head;
    FreeBlock* last = first;
    for (uint32_t i = 1; i < count; ++i) last = last->next;
    bin.head = last->next;
    bin.count -= count;
    free_[c].PushSome(first, last);
  }
  Fold(cache);
}

void* HostPool::AllocateShared(size_t bytes) {
  if (bytes > kMaxBytes) return nullptr;
  const int c = ClassOf(bytes);
  void* const memory = c < kLargeClass ? AllocateMedium(c) : AllocateLarge(c);
  if (memory == nullptr) return nullptr;
  thread_cache.Count(static_cast<int64_t>(SizeOf(c)), 1);
  Fold(thread_cache);
  return memory;
}

void HostPool::DeallocateShared(FreeBlock* block, int c) {
  thread_cache.Count(-static_cast<int64_t>(SizeOf(c)), 0);
  Fold(thread_cache);
  block->returned = 0;
  if (c >= kLargeClass) large_free_bytes_.fetch_add(static_cast<int64_t>(SizeOf(c)), std::memory_order_relaxed);
  free_[c].PushOne(block);
}

void* HostPool::AllocateMedium(int c) {
  FreeBlock* const block = free_[c].Pop();
  if (block == nullptr) return Carve(SizeOf(c));
  bytes_reserved_.fetch_add(static_cast<int64_t>(block->returned), std::memory_order_relaxed);
  return block;
}

// Fresh memory. The pool takes at most 7/8 of the machine's: a graph that asks for
// more gets an error, where the system would end the process.
void* HostPool::MapWithin(size_t bytes) {
  static const uint64_t limit = MachineMemoryBytes() / 8 * 7;
  const auto reserved = static_cast<uint64_t>(bytes_reserved_.load(std::memory_order_relaxed));
  return reserved + bytes > limit ? nullptr : Map(bytes);
}

void* HostPool::AllocateLarge(int c) {
  const auto size = static_cast<int64_t>(SizeOf(c));
  if (FreeBlock* const block = free_[c].Pop()) {
    large_free_bytes_.fetch_sub(size, std::memory_order_relaxed);
    return block;
  }
  // Sizes that keep changing would fill every class in turn. A program that
  // repeats itself does not come here, so this costs it nothing.
  const int64_t allowed = std::max<int64_t>(kLargeSlack, peak_bytes_.load(std::memory_order_relaxed));
  if (large_free_bytes_.load(std::memory_order_relaxed) > allowed) Trim(kHugePage);
  void* memory = MapWithin(SizeOf(c));
  if (memory == nullptr) {
    Trim(0);
    memory = MapWithin(SizeOf(c));
    if (memory == nullptr) return nullptr;
  }
  system_calls_.fetch_add(1, std::memory_order_relaxed);
  bytes_reserved_.fetch_add(size, std::memory_order_relaxed);
  return memory;
}

// `bytes` from the current region, or from a new one. REQUIRES: below 2 MB, a
// multiple of 64.
char* HostPool::Carve(size_t bytes) {
  MutexLock held(&region_lock_);
  if (static_cast<size_t>(region_end_ - region_begin_) < bytes) {
    char* const region = static_cast<char*>(MapWithin(kRegionBytes));
    if (region == nullptr) return nullptr;
    system_calls_.fetch_add(1, std::memory_order_relaxed);
    bytes_reserved_.fetch_add(kRegionBytes, std::memory_order_relaxed);
    Donate(region_begin_, region_end_);
    region_begin_ = region;
    region_end_ = region + kRegionBytes;
  }
  char* const memory = region_begin_;
  region_begin_ += bytes;
  return memory;
}

// Cuts the rest of a region into free blocks, the largest first.
void HostPool::Donate(char* begin, char* end) {
  while (begin < end) {
    int c = ClassOf(end - begin);
    if (SizeOf(c) > static_cast<size_t>(end - begin)) --c;
    auto* const block = new (begin) FreeBlock{nullptr, 0};
    c < kSmallClasses ? free_[c].PushSome(block, block) : free_[c].PushOne(block);
    begin += SizeOf(c);
  }
}

AllocatorStats HostPool::Stats() const {
  MutexLock held(&threads_lock_);
  int64_t in_use = bytes_in_use_.load(std::memory_order_relaxed);
  int64_t allocations = allocations_.load(std::memory_order_relaxed);
  for (const ThreadCache* t = threads_; t != nullptr; t = t->next) {
    in_use += t->bytes.load(std::memory_order_relaxed);
    allocations += t->allocations.load(std::memory_order_relaxed);
  }
  return {.bytes_in_use = in_use,
          .peak_bytes = std::max(in_use, peak_bytes_.load(std::memory_order_relaxed)),
          .bytes_reserved = bytes_reserved_.load(std::memory_order_relaxed),
          .allocations = allocations,
          .system_calls = system_calls_.load(std::memory_order_relaxed)};
}

void HostPool::Trim(size_t min_bytes) {
  for (int c = kSmallClasses; c < kClasses; ++c) {
    if (SizeOf(c) < min_bytes) continue;
    if (c >= kLargeClass) {
      Unmap(c, free_[c].TakeAll());
      continue;
    }
    MutexLock held(&free_[c].lock);
    GiveBack(c, free_[c].head);
  }
}

void HostPool::TrimIdle() {
  for (int c = kSmallClasses; c < kClasses; ++c) {
    if (c >= kLargeClass) {
      Unmap(c, free_[c].TakeIdle());
      continue;
    }
    MutexLock held(&free_[c].lock);
    GiveBack(c, *free_[c].FindIdle());
  }
}

// Medium blocks share regions and cannot be unmapped. The system gets their
// pages; the address stays, and so does the page with the list's pointer.
// REQUIRES: the list is locked.
void HostPool::GiveBack(int c, FreeBlock* first) {
  for (FreeBlock* block = first; block != nullptr; block = block->next) {
    if (block->returned != 0) continue;
    const auto address = reinterpret_cast<uintptr_t>(block);
    const uintptr_t begin = (address + sizeof(FreeBlock) + kPage - 1) & ~(kPage - 1);
    const uintptr_t end = (address + SizeOf(c)) & ~(kPage - 1);
    if (madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED) != 0) continue;
    block->returned = end - begin;
    bytes_reserved_.fetch_sub(static_cast<int64_t>(block->returned), std::memory_order_relaxed);
  }
}

void HostPool::Unmap(int c, FreeBlock* first) {
  const size_t size = SizeOf(c);
  for (FreeBlock* block = first; block != nullptr;) {
    FreeBlock* const next = block->next;
    if (munmap(block, size) == 0) {
      large_free_bytes_.fetch_sub(static_cast<int64_t>(size), std::memory_order_relaxed);
      bytes_reserved_.fetch_sub(static_cast<int64_t>(size), std::memory_order_relaxed);
    } else {
      free_[c].PushOne(block);  // too many mappings to split one: it stays ours
    }
    block = next;
  }
}

#endif  // THALWEG_ASAN_

// Never destroyed: tensors in static objects may outlive everything else.
HostPool& Pool() {
  alignas(HostPool) static unsigned char storage[sizeof(HostPool)];
  static HostPool* const pool = new (storage) HostPool;
  return *pool;
}

}  // namespace

Allocator& HostAllocator() { return Pool(); }

void TrimHostAllocator(size_t min_bytes) { Pool().Trim(min_bytes); }

void TrimIdleMemory(absl::Duration idle) {
  static std::atomic<int64_t> last{0};
  const int64_t now = NowNanos();
  int64_t before = last.load(std::memory_order_relaxed);
  if (now - before < absl::ToInt64Nanoseconds(idle) || !last.compare_exchange_strong(before, now)) return;
  Pool().TrimIdle();
  ExportedMemory::Global().TrimIdle();
}

}  // namespace thalweg
