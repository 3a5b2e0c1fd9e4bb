// SPDX-License-Identifier: Apache-2.0
#include "thalweg/checkpoint/table.h"

#include <unistd.h>

#include <cstring>
#include <string>

#include "gtest/gtest.h"
#include "thalweg/base/crc32c.h"
#include "thalweg/base/varint.h"

namespace thalweg {
namespace {

void Append32(std::string* out, uint32_t value) { out->append(reinterpret_cast<const char*>(&value), sizeof(value)); }

void AppendEntry(std::string* block, uint64_t shared, const std::string& rest, const std::string& value) {
  AppendVarint(block, shared);
  AppendVarint(block, rest.size());
  AppendVarint(block, value.size());
  *block += rest + value;
}

// Ends a block with its one restart, its kind and its checksum; says where it is.
std::string AppendBlock(std::string* file, std::string block) {
  Append32(&block, 0);
  Append32(&block, 1);
  std::string handle;
  AppendVarint(&handle, file->size());
  AppendVarint(&handle, block.size());
  block.push_back(0);
  Append32(&block, MaskCrc(Crc32c(block.data(), block.size())));
  *file += block;
  return handle;
}

// A table of one block of entries.
std::string TableOf(const std::string& entries) {
  std::string file, index;
  AppendEntry(&index, 0, "z", AppendBlock(&file, entries));
  std::string footer = AppendBlock(&file, "") + AppendBlock(&file, index);
  footer.resize(40);
  const uint64_t magic = 0xdb4775248b80fb57;
  footer.append(reinterpret_cast<const char*>(&magic), sizeof(magic));
  return file + footer;
}

absl::StatusOr<std::vector<Table::Entry>> ReadAll(const std::string& bytes) {
  const std::string path = testing::TempDir() + "table_test_" + std::to_string(getpid());
  EXPECT_TRUE(PosixFileSystem().WriteStringToFile(path, bytes).ok());
  absl::StatusOr<std::unique_ptr<Table>> table = Table::Open(PosixFileSystem(), path);
  EXPECT_TRUE(PosixFileSystem().DeleteFile(path).ok());
  if (!table.ok()) return table.status();
  return (*table)->ReadAll();
}

TEST(Table, KeysShareTheirPrefixes) {
  std::string entries;
  AppendEntry(&entries, 0, "variable", "1");
  AppendEntry(&entries, 8, "/Adam", "2");
  AppendEntry(&entries, 9, "Momentum", "3");
  const auto all = ReadAll(TableOf(entries));
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), 3);
  EXPECT_EQ((*all)[1], Table::Entry("variable/Adam", "2"));
  EXPECT_EQ((*all)[2], Table::Entry("variable/Momentum", "3"));
}

// 200 KB of file that stand for 2 GB of keys.
TEST(Table, KeysThatTakeFarMoreThanTheFile) {
  std::string entries;
  AppendEntry(&entries, 0, std::string(100'000, 'a'), "");
  for (int i = 0; i < 20'000; ++i) AppendEntry(&entries, 100'000 + i, "a", "");
  const auto all = ReadAll(TableOf(entries));
  EXPECT_EQ(all.status().code(), absl::StatusCode::kDataLoss) << all.status();
}

}  // namespace
}  // namespace thalweg
