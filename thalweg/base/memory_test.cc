// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/memory.h"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "thalweg/base/idle_memory.h"
#include "thalweg/base/malloc.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif

namespace thalweg {
namespace {

constexpr size_t kKilobyte = 1024;
constexpr size_t kMegabyte = 1024 * kKilobyte;

// With AddressSanitizer, blocks come from malloc and are not cached. Sanitizers have their own malloc and
// need the address space that a test takes away. Tests that cannot work are not compiled in such builds.
#if defined(__SANITIZE_ADDRESS__)
#define THALWEG_POOLED 0
#else
#define THALWEG_POOLED 1
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define THALWEG_PLAIN_MALLOC 0
#else
#define THALWEG_PLAIN_MALLOC 1
#endif

AllocatorStats Stats() { return HostAllocator().Stats(); }

// Around every border between classes, and some of everything.
std::vector<size_t> InterestingSizes(size_t max) {
  std::vector<size_t> sizes = {0, 1, 7};
  for (size_t power = 64; power <= max; power *= 2) {
    for (size_t eighth = 8; eighth < 16; ++eighth) {
      const size_t size = power / 8 * eighth;
      if (size + 1 > max) break;
      sizes.insert(sizes.end(), {size - 1, size, size + 1});
    }
  }
  return sizes;
}

TEST(HostAllocator, BlocksAreAlignedAndDisjoint) {
  std::vector<std::pair<unsigned char*, size_t>> blocks;
  for (const size_t bytes : InterestingSizes(6 * kMegabyte)) {
    for (int i = 0; i < 2; ++i) {
      auto* const memory = static_cast<unsigned char*>(HostAllocator().Allocate(bytes));
      ASSERT_NE(memory, nullptr) << bytes;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % Allocator::kAlignment, 0) << bytes;
      memset(memory, static_cast<int>(blocks.size() % 251), bytes);
      blocks.emplace_back(memory, bytes);
    }
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto [memory, bytes] = blocks[i];
    const auto expected = static_cast<unsigned char>(i % 251);
    const bool intact =
        bytes == 0 || (memory[0] == expected && (bytes == 1 || memcmp(memory, memory + 1, bytes - 1) == 0));
    EXPECT_TRUE(intact) << "block of " << bytes << " bytes was overwritten";
    HostAllocator().Deallocate(memory, bytes);
  }
}

TEST(HostAllocator, RoundsUpByAQuarterAtMost) {
  for (const size_t bytes : InterestingSizes(40 * kMegabyte)) {
    const int64_t before = Stats().bytes_in_use;
    void* const memory = HostAllocator().Allocate(bytes);
    const auto taken = static_cast<size_t>(Stats().bytes_in_use - before);
    EXPECT_GE(taken, bytes);
    EXPECT_LE(taken, std::max<size_t>(bytes + bytes / 4, bytes + 64)) << bytes;
    if (bytes > 2 * kMegabyte) {
      EXPECT_LE(taken, bytes + bytes / 8) << bytes;
    }
    HostAllocator().Deallocate(memory, bytes);
  }
}

TEST(HostAllocator, CountsWhatIsInUse) {
  const AllocatorStats before = Stats();
  void* const small = HostAllocator().Allocate(100);
  void* const medium = HostAllocator().Allocate(300 * kKilobyte);
  void* const large = HostAllocator().Allocate(5 * kMegabyte);
  const AllocatorStats held = Stats();
  EXPECT_EQ(held.allocations, before.allocations + 3);
  EXPECT_EQ(held.bytes_in_use, before.bytes_in_use + 128 + 320 * kKilobyte + 5 * kMegabyte);
  EXPECT_GE(held.peak_bytes, held.bytes_in_use);
  EXPECT_GE(held.bytes_reserved, held.bytes_in_use);
  HostAllocator().Deallocate(small, 100);
  HostAllocator().Deallocate(medium, 300 * kKilobyte);
  HostAllocator().Deallocate(large, 5 * kMegabyte);
  EXPECT_EQ(Stats().bytes_in_use, before.bytes_in_use);
  EXPECT_EQ(Stats().allocations, held.allocations);
  EXPECT_GE(Stats().peak_bytes, held.bytes_in_use);
}

TEST(HostAllocator, AbsurdSizesAreRefused) {
  const AllocatorStats before = Stats();
  EXPECT_EQ(HostAllocator().Allocate(std::numeric_limits<size_t>::max()), nullptr);
  EXPECT_EQ(HostAllocator().Allocate(std::numeric_limits<int64_t>::max()), nullptr);
  EXPECT_EQ(HostAllocator().Allocate((size_t{1} << 46) + 1), nullptr);
  EXPECT_EQ(Stats().bytes_in_use, before.bytes_in_use);
  EXPECT_EQ(Stats().allocations, before.allocations);
  HostAllocator().Deallocate(nullptr, 5);
  EXPECT_EQ(Stats().bytes_in_use, before.bytes_in_use);
}

#if THALWEG_PLAIN_MALLOC
// Runs in a child process: the limit would stay.
void FailToMap() {
  void* const kept = HostAllocator().Allocate(8 * kMegabyte);
  HostAllocator().Deallocate(kept, 8 * kMegabyte);
  const rlimit limit = {.rlim_cur = 64 * kMegabyte, .rlim_max = 64 * kMegabyte};
  if (setrlimit(RLIMIT_AS, &limit) != 0) exit(1);
  // Large ones, medium ones until the region is full, small ones likewise.
  if (HostAllocator().Allocate(900 * kMegabyte) != nullptr) exit(2);
  for (int i = 0; HostAllocator().Allocate(kMegabyte) != nullptr; ++i) {
    if (i > 1000) exit(3);
  }
  for (int i = 0; HostAllocator().Allocate(kKilobyte) != nullptr; ++i) {
    if (i > 1000000) exit(4);
  }
  exit(0);
}

TEST(HostAllocatorDeathTest, NoMemoryIsNullptr) { EXPECT_EXIT(FailToMap(), testing::ExitedWithCode(0), ""); }

TEST(HostAllocator, LargeBlocksBeginOnAHugePage) {
  for (const size_t bytes : {2 * kMegabyte, 3 * kMegabyte + 5, 33 * kMegabyte}) {
    void* const memory = HostAllocator().Allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % (2 * kMegabyte), 0) << bytes;
    HostAllocator().Deallocate(memory, bytes);
  }
}

// Whether the kernel was asked to back these bytes with huge pages: the flag "hg" of
// their mapping.
bool AsksForHugePages(const void* memory) {
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    if (sscanf(line.c_str(), "%zx-%zx ", &begin, &end) == 2) {
      here = begin <= reinterpret_cast<uintptr_t>(memory) && reinterpret_cast<uintptr_t>(memory) < end;
    } else if (here && line.starts_with("VmFlags:")) {
      return line.find(" hg") != std::string::npos;
    }
  }
  return false;
}

TEST(HostAllocator, TensorsLieOnHugePages) {
  for (const size_t bytes : {size_t{512}, 64 * kKilobyte, kMegabyte, 5 * kMegabyte}) {
    void* const memory = HostAllocator().Allocate(bytes);
    EXPECT_TRUE(AsksForHugePages(memory)) << bytes;
    HostAllocator().Deallocate(memory, bytes);
  }
}

// Nine blocks of 1.75 MB leave 256 KB of a region of 16 MB.
TEST(HostAllocator, TheRestOfARegionIsUsed) {
  constexpr size_t kBlock = 7 * kMegabyte / 4, kRest = 256 * kKilobyte;
  std::vector<char*> blocks;
  char* rest = nullptr;
  // The first region may have been begun by others, and free blocks may come
  // before it: the second one that is left is a whole one.
  for (int64_t calls = Stats().system_calls, regions = 0; regions < 3;) {
    blocks.push_back(static_cast<char*>(HostAllocator().Allocate(kBlock)));
    if (Stats().system_calls == calls) continue;
    calls = Stats().system_calls;
    ++regions;
    if (blocks.size() > 1) rest = blocks.end()[-2] + kBlock;
  }
  char* const small = static_cast<char*>(HostAllocator().Allocate(kRest));
  EXPECT_EQ(small, rest);
  HostAllocator().Deallocate(small, kRest);
  for (char* block : blocks) HostAllocator().Deallocate(block, kBlock);
}

// A process that once needed much memory does not keep it; what its steps need stays.
TEST(HostAllocator, TheSystemGetsBackWhatWasFreeForLong) {
  const auto use = [](int blocks_of_each) {
    std::vector<std::pair<void*, size_t>> blocks;
    for (int i = 0; i < blocks_of_each; ++i) {
      for (const size_t bytes : {300 * kKilobyte, 5 * kMegabyte}) {
        blocks.emplace_back(HostAllocator().Allocate(bytes), bytes);
        memset(blocks.back().first, 1, bytes);
      }
    }
    for (const auto& [memory, bytes] : blocks) HostAllocator().Deallocate(memory, bytes);
  };
  TrimIdleMemory(absl::ZeroDuration());
  use(1);
  TrimIdleMemory(absl::ZeroDuration());
  TrimIdleMemory(absl::ZeroDuration());
  const int64_t none = Stats().bytes_reserved;
  use(20);
  const int64_t all = Stats().bytes_reserved;
  EXPECT_GE(all, none + 20 * 5 * static_cast<int64_t>(kMegabyte));
  TrimIdleMemory(absl::ZeroDuration());  // until now it was in use
  EXPECT_EQ(Stats().bytes_reserved, all);
  const int64_t calls = Stats().system_calls;
  use(2);
  TrimIdleMemory(absl::Hours(1));  // the previous call was only just
  EXPECT_EQ(Stats().bytes_reserved, all);
  TrimIdleMemory(absl::ZeroDuration());
  const auto steps = static_cast<int64_t>(2 * (5 * kMegabyte + 320 * kKilobyte));
  EXPECT_LE(Stats().bytes_reserved, none + steps);
  use(2);
  EXPECT_EQ(Stats().system_calls, calls) << "the steps keep theirs";
  EXPECT_LE(Stats().bytes_reserved, none + steps);
  use(20);
  EXPECT_LE(Stats().bytes_reserved, all) << "pages that come back are counted once";
}

TEST(HostAllocator, RepeatedStepsAskTheSystemOnce) {
  const auto step = [] {
    std::vector<std::pair<void*, size_t>> blocks;
    for (const size_t bytes : InterestingSizes(9 * kMegabyte)) {
      blocks.emplace_back(HostAllocator().Allocate(bytes), bytes);
    }
    for (const auto& [memory, bytes] : blocks) HostAllocator().Deallocate(memory, bytes);
  };
  step();
  const AllocatorStats warm = Stats();
  for (int i = 0; i < 100; ++i) step();
  EXPECT_EQ(Stats().system_calls, warm.system_calls);
  EXPECT_EQ(Stats().bytes_reserved, warm.bytes_reserved);
  EXPECT_GT(Stats().allocations, warm.allocations);
}
#endif

TEST(HostAllocator, BlocksAllocatedHereMayBeFreedThere) {
  constexpr size_t kBytes = 2 * kKilobyte;
  constexpr int kBlocks = 400;
  const AllocatorStats before = Stats();
  std::vector<void*> blocks(kBlocks);
  for (int round = 0; round < 200; ++round) {
    for (void*& block : blocks) block = HostAllocator().Allocate(kBytes);
    std::thread([&] {
      for (void* block : blocks) HostAllocator().Deallocate(block, kBytes);
    }).join();
  }
  EXPECT_EQ(Stats().bytes_in_use, before.bytes_in_use);
  // 160 MB went through.
  EXPECT_LE(Stats().bytes_reserved, before.bytes_reserved + 20 * kMegabyte);
}

TEST(HostAllocator, ThreadsGiveTheirCachesBack) {
  const AllocatorStats before = Stats();
  for (int i = 0; i < 100; ++i) {
    std::thread([] {
      std::vector<void*> blocks(100);
      for (size_t bytes = 64; bytes <= 64 * kKilobyte; bytes += bytes / 4) {
        for (void*& block : blocks) block = HostAllocator().Allocate(bytes);
        for (void* block : blocks) HostAllocator().Deallocate(block, bytes);
      }
    }).join();
  }
  EXPECT_EQ(Stats().bytes_in_use, before.bytes_in_use);
  // Every thread cached 2 MB; what the first one had in use is 35 MB.
  EXPECT_LE(Stats().bytes_reserved, before.bytes_reserved + 70 * kMegabyte);
}

// Frees and allocates when the thread's cache is already gone: thread_locals
// are destroyed in reverse order, and this one is made first.
struct LateUser {
  void* memory = nullptr;
  std::vector<std::pair<void*, size_t>>* kept = nullptr;
  ~LateUser() {
    HostAllocator().Deallocate(memory, 1000);
    for (size_t bytes = 64; bytes <= 64 * kKilobyte; bytes += bytes / 4) {
      void* const passing = HostAllocator().Allocate(bytes);
      HostAllocator().Deallocate(passing, bytes);
      kept->emplace_back(HostAllocator().Allocate(bytes), bytes);
      memset(kept->back().first, 1, bytes);
    }
  }
};

TEST(HostAllocator, WorksWhileAThreadEnds) {
  const AllocatorStats before = Stats();
  for (int i = 0; i < 100; ++i) {
    std::vector<std::pair<void*, size_t>> kept;
    std::thread([&] {
      static thread_local LateUser late;
      late.kept = &kept;
      late.memory = HostAllocator().Allocate(1000);
    }).join();
    EXPECT_EQ(Stats().allocations, before.allocations + (i + 1) * (1 + 2 * kept.size()));
    for (const auto& [memory, bytes] : kept) HostAllocator().Deallocate(memory, bytes);
  }
  EXPECT_EQ(Stats().bytes_in_use, before.bytes_in_use);
  // A thread that went on caching would take 1 MB with it.
  EXPECT_LE(Stats().bytes_reserved, before.bytes_reserved + 20 * kMegabyte);
}

// 4 threads allocate and free a million blocks of random sizes and exchange
// them; each writes its blocks, so that a block given out twice shows.
void Churn(int operations_per_thread) {
  struct Block {
    uint64_t* memory = nullptr;
    size_t bytes = 0;
    uint64_t mark = 0;
  };
  std::array<std::atomic<Block*>, 64> exchange{};
  const auto release = [](Block* block) {
    if (block == nullptr) return;
    ASSERT_EQ(block->memory[0], block->mark);
    ASSERT_EQ(block->memory[block->bytes / 8 - 1], block->mark);
    HostAllocator().Deallocate(block->memory, block->bytes);
    delete block;
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < operations_per_thread; ++i) {
        // Log-uniform, 8 bytes to 256 KB; one in 4096 is of megabytes.
        size_t bytes = (size_t{8} << random() % 15) + random() % (size_t{8} << random() % 15) / 8 * 8;
        if (random() % 4096 == 0) bytes += random() % (6 * kMegabyte) / 8 * 8;
        auto* const block = new Block{static_cast<uint64_t*>(HostAllocator().Allocate(bytes)), bytes, random()};
        ASSERT_NE(block->memory, nullptr);
        block->memory[0] = block->mark;
        block->memory[bytes / 8 - 1] = block->mark;
        release(exchange[random() % exchange.size()].exchange(block, std::memory_order_acq_rel));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& slot : exchange) release(slot.load());
}

TEST(HostAllocator, AMillionRandomBlocksDoNotGrowIt) {
  const AllocatorStats before = Stats();
  Churn(50000);
  const AllocatorStats warm = Stats();
  EXPECT_EQ(warm.bytes_in_use, before.bytes_in_use);
  Churn(250000);
  const AllocatorStats after = Stats();
  EXPECT_EQ(after.bytes_in_use, before.bytes_in_use);
  EXPECT_GE(after.allocations, warm.allocations + 1000000);
  // 10 GB went through; at most 100 MB or so are alive at any time.
  EXPECT_LE(after.bytes_reserved, before.bytes_reserved + 400 * kMegabyte);
}

#if THALWEG_POOLED
TEST(HostAllocator, ChangingSizesDoNotFillEveryClass) {
  TrimHostAllocator();
  const AllocatorStats before = Stats();
  for (size_t bytes = 2 * kMegabyte; bytes <= 200 * kMegabyte; bytes += kMegabyte) {
    void* const memory = HostAllocator().Allocate(bytes);
    HostAllocator().Deallocate(memory, bytes);
  }
  // One block of every class would be 2.3 GB.
  EXPECT_LE(Stats().bytes_reserved,
            before.bytes_reserved + std::max<int64_t>(Stats().peak_bytes, 256 * kMegabyte) + 224 * kMegabyte);
}

// Bytes of this process that are in memory.
int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * 4096;
}

TEST(HostAllocator, TrimGivesFreeBlocksBack) {
  TrimHostAllocator();
  constexpr int kBlocks = 30;
  for (const size_t bytes : {kMegabyte, 4 * kMegabyte}) {
    const auto use = [bytes] {
      std::vector<char*> blocks(kBlocks);
      for (char*& block : blocks) {
        block = static_cast<char*>(HostAllocator().Allocate(bytes));
        memset(block, 1, bytes);
      }
      const AllocatorStats held = Stats();
      for (char* block : blocks) HostAllocator().Deallocate(block, bytes);
      return held;
    };
    const AllocatorStats held = use();
    const int64_t resident = ResidentBytes();
    EXPECT_EQ(Stats().bytes_reserved, held.bytes_reserved) << "free blocks are kept";

    TrimHostAllocator(bytes + 1);
    EXPECT_EQ(Stats().bytes_reserved, held.bytes_reserved) << "only larger blocks were asked for";

    TrimHostAllocator(bytes);
    // A medium block keeps two pages at most.
    EXPECT_LE(Stats().bytes_reserved, held.bytes_reserved - kBlocks * static_cast<int64_t>(bytes - 8 * kKilobyte));
    EXPECT_LE(ResidentBytes(), resident - kBlocks * static_cast<int64_t>(bytes) / 2);
    const AllocatorStats trimmed = Stats();
    TrimHostAllocator(bytes);
    EXPECT_EQ(Stats().bytes_reserved, trimmed.bytes_reserved) << "nothing is given back twice";

    EXPECT_EQ(use().bytes_reserved, held.bytes_reserved) << "and blocks can be had again";
    TrimHostAllocator();
  }
}
#endif

#if THALWEG_PLAIN_MALLOC
void UseConfiguredMalloc() {
  ConfigureMalloc();
  constexpr size_t kBytes = 64 * kMegabyte;
  char* memory = static_cast<char*>(malloc(kBytes));
  asm volatile("" : "+r"(memory) : : "memory");  // the compiler must not see that nobody reads it
  memset(memory, 1, kBytes);
  asm volatile("" : "+r"(memory) : : "memory");
  if (mallinfo2().hblkhd != 0) exit(1);  // mapped, so that free would unmap it
  const int64_t resident = ResidentBytes();
  free(memory);
  exit(ResidentBytes() > resident - static_cast<int64_t>(kBytes) / 2 ? 0 : 2);
}

// Threads that run at the same time share two arenas per core.
void UseMallocInManyThreads() {
  ConfigureMalloc();
  std::vector<std::thread> threads;
  std::atomic<int> started{0};
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int many = 10 * cores;
  for (int i = 0; i < many; ++i) {
    threads.emplace_back([&] {
      char* memory = static_cast<char*>(malloc(100 * kKilobyte));
      asm volatile("" : "+r"(memory) : : "memory");
      ++started;
      while (started < many) std::this_thread::yield();
      free(memory);
    });
  }
  for (std::thread& thread : threads) thread.join();
  char* text = nullptr;
  size_t size = 0;
  FILE* const file = open_memstream(&text, &size);
  malloc_info(0, file);
  fclose(file);
  int arenas = 0;
  for (const char* at = text; (at = std::strstr(at, "<heap nr=")) != nullptr; ++at) ++arenas;
  exit(arenas <= 2 * cores + 1 ? 0 : arenas);
}
TEST(ConfigureMallocDeathTest, ArenasAreFew) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a process of its own: arenas do not go away
  EXPECT_EXIT(UseMallocInManyThreads(), testing::ExitedWithCode(0), "");
}
TEST(ConfigureMallocDeathTest, MallocKeepsItsMemory) {
  EXPECT_EXIT(UseConfiguredMalloc(), testing::ExitedWithCode(0), "");
}
#endif

#if defined(__SANITIZE_ADDRESS__)
TEST(HostAllocatorDeathTest, AddressSanitizerSeesOverflows) {
  char* const memory = static_cast<char*>(HostAllocator().Allocate(100));
  EXPECT_DEATH(static_cast<volatile char*>(memory)[100] = 1, "heap-buffer-overflow");
  HostAllocator().Deallocate(memory, 100);
  EXPECT_DEATH(static_cast<volatile char*>(memory)[0] = 1, "heap-use-after-free");
}
#endif

}  // namespace
}  // namespace thalweg
