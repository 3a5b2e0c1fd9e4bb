// SPDX-License-Identifier: Apache-2.0
#include "thalweg/transport/shared_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace thalweg {
namespace {

TEST(BlockArenaTest, BlocksAreApartAndUsedAgainWhenTheReceiverLetsGo) {
  const std::shared_ptr<SharedMemory> memory = SharedMemory::Create(4096).value();
  BlockArena arena(memory);
  const std::shared_ptr<SharedMemory> seen = SharedMemory::Map(FileHandle(dup(arena.fd()))).value();
  const auto first = arena.Allocate(1000), second = arena.Allocate(1000), third = arena.Allocate(1000);
  ASSERT_TRUE(first && second && third);
  EXPECT_FALSE(arena.Allocate(1000).has_value());
  for (const uint64_t offset : {*first, *second, *third}) {
    EXPECT_EQ(offset % 64, 0);
    std::fill_n(arena.at(offset), 1000, static_cast<char>(offset));
    arena.Publish(offset);
  }
  auto bytes = TakeBlock(seen, *second, 1000);
  ASSERT_TRUE(bytes.has_value());
  EXPECT_EQ(bytes->data[999], static_cast<char>(*second));
  EXPECT_FALSE(arena.Allocate(1000).has_value());
  bytes.reset();
  EXPECT_EQ(arena.Allocate(1000), second);
  arena.Release(*first);
  EXPECT_EQ(arena.Allocate(10), first);
  EXPECT_FALSE(arena.Allocate(1 << 20).has_value());
}

TEST(BlockArenaTest, ABlockOutsideOfTheMemoryIsNone) {
  const std::shared_ptr<SharedMemory> memory = SharedMemory::Create(4096).value();
  for (const auto& [offset, bytes] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 1}, {65, 1}, {64, 4096}, {4096, 1}, {8192, 0}, {64, ~0ull}, {~0ull - 63, 128}}) {
    EXPECT_FALSE(TakeBlock(memory, offset, bytes).has_value()) << offset << " " << bytes;
  }
  for (const auto& [offset, bytes] :
       std::vector<std::pair<uint64_t, uint64_t>>{{0, 4097}, {4096, 1}, {1, 4096}, {~0ull, 1}, {1, ~0ull}}) {
    EXPECT_FALSE(TakePart(memory, offset, bytes).has_value()) << offset << " " << bytes;
    EXPECT_FALSE(TakeMarkedPart(memory, offset, bytes, memory, 64).has_value()) << offset << " " << bytes;
  }
  for (const uint64_t mark : {uint64_t{0}, uint64_t{65}, uint64_t{4160}, ~uint64_t{63}}) {
    EXPECT_FALSE(TakeMarkedPart(memory, 0, 1, memory, mark).has_value()) << mark;
  }
}

TEST(BlockArenaTest, WhatIsElsewhereIsHeldUntilTheReceiverLetsGo) {
  const std::shared_ptr<SharedMemory> memory = SharedMemory::Create(1 << 20).value();
  const std::shared_ptr<SharedMemory> values = SharedMemory::Create(4096).value();
  BlockArena arena(memory);
  const std::shared_ptr<SharedMemory> seen = SharedMemory::Map(FileHandle(dup(arena.fd()))).value();
  const auto read = SharedMemory::MapToRead(FileHandle(dup(values->fd()))).value();
  EXPECT_EQ(SharedMemory::MapToRead(FileHandle(dup(values->fd()))).value(), read);  // mapped once
  auto value = std::make_shared<int>(3);
  const std::weak_ptr<int> lives = value;
  const auto mark = arena.Hold({reinterpret_cast<const char*>(value.get()), sizeof(int), std::move(value)});
  ASSERT_TRUE(mark.has_value());
  auto part = TakeMarkedPart(read, 64, 100, seen, *mark);
  ASSERT_TRUE(part.has_value());
  EXPECT_EQ(part->data, read->data() + 64);
  EXPECT_FALSE(arena.Sweep());
  EXPECT_FALSE(lives.expired());
  part.reset();
  EXPECT_TRUE(arena.Sweep());
  EXPECT_TRUE(lives.expired());
}

TEST(BlockArenaTest, AReceiverThatLetsNothingGoHasALimit) {
  BlockArena arena(SharedMemory::Create(1 << 20).value());
  const auto value = std::make_shared<const int>(1);
  const auto bytes = [&](uint64_t size) { return HeldBytes{reinterpret_cast<const char*>(value.get()), size, value}; };
  EXPECT_FALSE(arena.Hold(bytes(BlockArena::kMaxHeldBytes + 1)).has_value());
  for (size_t i = 0; i < BlockArena::kMaxHeld; ++i) ASSERT_TRUE(arena.Hold(bytes(4)).has_value());
  EXPECT_FALSE(arena.Hold(bytes(4)).has_value());
  EXPECT_EQ(value.use_count(), BlockArena::kMaxHeld + 1);
  arena.ReleaseHeld();
  EXPECT_EQ(value.use_count(), 1);
  EXPECT_TRUE(arena.Hold(bytes(4)).has_value());
}

TEST(SharedMemoryTest, OnlyWhatCannotShrinkIsMapped) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const FileHandle write_end(pipe_ends[1]);
  EXPECT_TRUE(absl::IsInvalidArgument(SharedMemory::Map(FileHandle(pipe_ends[0])).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(SharedMemory::Map(FileHandle()).status()));
}

}  // namespace
}  // namespace thalweg
