// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/exported_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"

namespace thalweg {
namespace {

constexpr size_t kMegabytes = size_t{1} << 20;

TEST(ExportedMemoryTest, GivesNothingBeforeItIsEnabled) {
  ExportedMemory memory;
  memory.Want(kMegabytes);
  EXPECT_FALSE(memory.Wants(kMegabytes));
  EXPECT_EQ(memory.Allocate(kMegabytes), nullptr);
  EXPECT_FALSE(memory.Holds(&memory, 1));
}

TEST(ExportedMemoryTest, OnlySizesThatWereSentAreWanted) {
  ExportedMemory memory;
  ASSERT_TRUE(memory.Enable({.limit = kMegabytes, .addresses = kMegabytes}).ok());
  memory.Want(100'000);
  memory.Want(100);  // too small to matter
  EXPECT_TRUE(memory.Wants(100'000));
  EXPECT_FALSE(memory.Wants(100'001));
  EXPECT_FALSE(memory.Wants(100));
}

// The sizes of the gradients of a model, for example.
TEST(ExportedMemoryTest, ManySizesAreWantedAtOnce) {
  ExportedMemory memory;
  ASSERT_TRUE(memory.Enable({.limit = kMegabytes, .addresses = kMegabytes}).ok());
  const auto size = [](size_t i) { return 65'536 + i * i * 4096; };
  for (size_t i = 0; i < 60; ++i) memory.Want(size(i));
  for (size_t i = 0; i < 60; ++i) EXPECT_TRUE(memory.Wants(size(i))) << i;
  for (size_t i = 1000; i < 2000; ++i) memory.Want(size(i));
  EXPECT_TRUE(memory.Wants(size(1999))) << "the last ones count";
}

TEST(ExportedMemoryTest, BlocksAreApartAndReadableThroughTheFile) {
  ExportedMemory memory;
  ASSERT_TRUE(memory.Enable({.limit = 16 * kMegabytes, .addresses = 16 * kMegabytes}).ok());
  std::vector<std::pair<void*, size_t>> blocks;
  for (size_t i = 0; i < 10; ++i) {
    const size_t bytes = 70'000 * (i + 1);
    void* const block = memory.Allocate(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 4096, 0);
    std::memset(block, static_cast<int>('a' + i), bytes);
    blocks.emplace_back(block, bytes);
  }
  const void* const mapped = mmap(nullptr, 16 * kMegabytes, PROT_READ, MAP_SHARED, memory.fd(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  for (size_t i = 0; i < blocks.size(); ++i) {
    uint64_t offset = 0;
    ASSERT_TRUE(memory.Holds(blocks[i].first, blocks[i].second, &offset));
    EXPECT_EQ(std::memcmp(static_cast<const char*>(mapped) + offset, blocks[i].first, blocks[i].second), 0);
    memory.Deallocate(blocks[i].first, blocks[i].second);
  }
  EXPECT_EQ(memory.bytes_in_use(), 0);
  // All of it is one piece again.
  void* const large = memory.Allocate(3 * kMegabytes);
  EXPECT_EQ(large, blocks[0].first);
  memory.Deallocate(large, 3 * kMegabytes);
  EXPECT_FALSE(memory.Holds(&memory, 1));
  EXPECT_FALSE(memory.Holds(large, 16 * kMegabytes + 1));
  munmap(const_cast<void*>(mapped), 16 * kMegabytes);
}

TEST(ExportedMemoryTest, BeyondTheLimitThereIsNone) {
  ExportedMemory memory;
  ASSERT_TRUE(memory.Enable({.limit = 2 * kMegabytes, .addresses = 8 * kMegabytes}).ok());
  void* const first = memory.Allocate(kMegabytes);
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(memory.HasRoom(kMegabytes));
  EXPECT_FALSE(memory.HasRoom(kMegabytes + 1));
  EXPECT_EQ(memory.Allocate(kMegabytes + 1), nullptr);
  EXPECT_EQ(memory.Allocate(~size_t{0}), nullptr);
  void* const second = memory.Allocate(kMegabytes);
  EXPECT_NE(second, nullptr);
  EXPECT_EQ(memory.Allocate(1), nullptr);
  memory.Deallocate(first, kMegabytes);
  EXPECT_EQ(memory.Allocate(kMegabytes), first);
}

TEST(ExportedMemoryTest, TheSystemGetsBackWhatIsNoLongerUsed) {
  ExportedMemory memory;
  ASSERT_TRUE(memory.Enable({.limit = 64 * kMegabytes, .addresses = 64 * kMegabytes, .slack = 4 * kMegabytes}).ok());
  std::vector<void*> blocks;
  for (int i = 0; i < 32; ++i) {
    blocks.push_back(memory.Allocate(kMegabytes));
    std::memset(blocks.back(), 1, kMegabytes);
  }
  struct stat stat;
  ASSERT_EQ(fstat(memory.fd(), &stat), 0);
  EXPECT_EQ(stat.st_blocks * 512, 32 * kMegabytes);
  for (void* const block : blocks) memory.Deallocate(block, kMegabytes);
  EXPECT_LE(memory.bytes_resident(), 4 * kMegabytes);
  ASSERT_EQ(fstat(memory.fd(), &stat), 0);
  EXPECT_LE(stat.st_blocks * 512, 4 * kMegabytes);
  // It can be used again, all of it at once too.
  std::vector<void*> again;
  for (int i = 0; i < 32; ++i) again.push_back(memory.Allocate(kMegabytes));
  for (void* const block : again) {
    ASSERT_NE(block, nullptr);
    std::memset(block, 2, kMegabytes);
    memory.Deallocate(block, kMegabytes);
  }
}

TEST(ExportedMemoryTest, TheSystemGetsBackWhatWasFreeForLong) {
  ExportedMemory memory;
  ASSERT_TRUE(memory.Enable({.limit = 64 * kMegabytes, .addresses = 64 * kMegabytes}).ok());
  std::vector<void*> blocks;
  for (int i = 0; i < 32; ++i) {
    blocks.push_back(memory.Allocate(kMegabytes));
    std::memset(blocks.back(), 1, kMegabytes);
  }
  for (void* const block : blocks) memory.Deallocate(block, kMegabytes);
  memory.TrimIdle();  // until now it was in use
  EXPECT_EQ(memory.bytes_resident(), 32 * kMegabytes);
  // Steps need 2 MB.
  for (int i = 0; i < 10; ++i) {
    void* const one = memory.Allocate(kMegabytes);
    void* const two = memory.Allocate(kMegabytes);
    memory.Deallocate(one, kMegabytes);
    memory.Deallocate(two, kMegabytes);
  }
  memory.TrimIdle();
  EXPECT_EQ(memory.bytes_resident(), 2 * kMegabytes);
  struct stat stat;
  ASSERT_EQ(fstat(memory.fd(), &stat), 0);
  EXPECT_EQ(stat.st_blocks * 512, 2 * kMegabytes);
  memory.TrimIdle();
  EXPECT_EQ(memory.bytes_resident(), 0);
  void* const all = memory.Allocate(32 * kMegabytes);
  ASSERT_NE(all, nullptr);
  std::memset(all, 3, 32 * kMegabytes);
  memory.Deallocate(all, 32 * kMegabytes);
}

class Held : public ExportHolder {
 public:
  Held(ExportedMemory* memory, void* block, size_t bytes) : memory_(memory), block_(block), bytes_(bytes) {}
  bool Reclaim() override {
    if (reader_uses_it) return false;
    memory_->Deallocate(std::exchange(block_, nullptr), bytes_);
    return true;
  }
  std::atomic<bool> reader_uses_it{true};

 private:
  ExportedMemory* const memory_;
  void* block_;
  const size_t bytes_;
};

TEST(ExportedMemoryTest, MemoryThatReadersHaveLetGoOfIsFoundWhenItIsNeeded) {
  ExportedMemory memory;
  ASSERT_TRUE(memory.Enable({.limit = 2 * kMegabytes, .addresses = 2 * kMegabytes}).ok());
  const auto one = std::make_shared<Held>(&memory, memory.Allocate(kMegabytes), kMegabytes);
  auto two = std::make_shared<Held>(&memory, memory.Allocate(kMegabytes), kMegabytes);
  memory.Add(one);
  memory.Adopt(two);
  const std::weak_ptr<Held> adopted = two;
  EXPECT_EQ(memory.Allocate(kMegabytes), nullptr);
  one->reader_uses_it = false;
  EXPECT_NE(memory.Allocate(kMegabytes), nullptr);
  EXPECT_EQ(memory.Allocate(kMegabytes), nullptr);
  std::exchange(two, nullptr)->reader_uses_it = false;
  EXPECT_NE(memory.Allocate(kMegabytes), nullptr);
  EXPECT_TRUE(adopted.expired());
}

TEST(ExportedMemoryTest, MemoryOfReadersThatAreGoneComesBackThoughNothingIsAllocated) {
  ExportedMemory memory;
  ASSERT_TRUE(memory.Enable({.limit = 2 * kMegabytes, .addresses = 2 * kMegabytes}).ok());
  auto one = std::make_shared<Held>(&memory, memory.Allocate(kMegabytes), kMegabytes);
  auto two = std::make_shared<Held>(&memory, memory.Allocate(kMegabytes), kMegabytes);
  memory.Adopt(one);
  memory.Adopt(two);
  EXPECT_EQ(memory.bytes_in_use(), 2 * kMegabytes);
  for (auto* const holder : {&one, &two}) {
    const size_t before = memory.bytes_in_use();
    std::exchange(*holder, nullptr)->reader_uses_it = false;
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (memory.bytes_in_use() == before && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(10));
    EXPECT_EQ(memory.bytes_in_use(), before - kMegabytes);
  }
}

TEST(ExportedMemoryTest, AFileThatMayNotBeSoLargeIsAnError) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  ExportedMemory memory;
  EXPECT_TRUE(absl::IsResourceExhausted(memory.Enable({.limit = kMegabytes, .addresses = 2 * kMegabytes})));
  EXPECT_EQ(memory.Allocate(100), nullptr);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
}

TEST(ExportedMemoryTest, ThreadsAllocateAtOnce) {
  ExportedMemory memory;
  ASSERT_TRUE(memory.Enable({.limit = 64 * kMegabytes, .addresses = 64 * kMegabytes, .slack = kMegabytes}).ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 500; ++i) {
        const size_t bytes = 65'536 + (i * 7919 + t * 104'729) % 900'000;
        auto* const block = static_cast<char*>(memory.Allocate(bytes));
        ASSERT_NE(block, nullptr);
        block[0] = block[bytes - 1] = static_cast<char>(t);
        std::this_thread::yield();
        ASSERT_EQ(block[0], t);
        ASSERT_EQ(block[bytes - 1], t);
        memory.Deallocate(block, bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory.bytes_in_use(), 0);
}

}  // namespace
}  // namespace thalweg
