// SPDX-License-Identifier: Apache-2.0
// Databases are made byte by byte. python/tests/dataset_clients_test.py reads one that LMDB wrote.
#include "thalweg/ops/lmdb/lmdb.h"

#include <cstring>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/folder_testlib.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

constexpr uint64_t kPage = 256;

// A database of pages of 256 bytes.
class LmdbTest : public FolderTest {
 protected:
  LmdbTest() : bytes_(2 * kPage, '\0') {
    for (uint64_t i = 0; i < 2; ++i) {
      PutPage(i, 0x08);
      Put<uint32_t>(i * kPage + 16, 0xBEEFC0DE);
      Put<uint32_t>(i * kPage + 20, 1);
      Put<uint32_t>(i * kPage + 40, kPage);
      Put<uint64_t>(i * kPage + 144, i);  // the second is newer
      Put<uint64_t>(i * kPage + 128, ~uint64_t{0});
    }
  }

  template <typename T>
  void Put(uint64_t at, T value) {
    if (bytes_.size() < at + sizeof(T)) bytes_.resize((at + sizeof(T) + kPage - 1) / kPage * kPage);
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
  }
  void PutPage(uint64_t number, uint16_t flags) {
    Put<uint64_t>(number * kPage, number);
    Put<uint16_t>(number * kPage + 10, flags);
    Put<uint16_t>(number * kPage + 12, 16);
  }
  void SetRoot(uint64_t root, uint64_t entries) {
    Put<uint64_t>(kPage + 120, entries);
    Put<uint64_t>(kPage + 128, root);
  }
  // Adds a node to a page, at `at` in it. Returns its offset in the file.
  uint64_t AddNode(uint64_t page, uint16_t at, uint64_t number, const std::string& key, const std::string& value) {
    const uint64_t begin = page * kPage;
    uint16_t end = 0;
    std::memcpy(&end, bytes_.data() + begin + 12, 2);
    Put<uint16_t>(begin + end, at);
    Put<uint16_t>(begin + 12, static_cast<uint16_t>(end + 2));
    Put<uint32_t>(begin + at, static_cast<uint32_t>(number));
    Put<uint16_t>(begin + at + 6, static_cast<uint16_t>(key.size()));
    for (size_t i = 0; i < key.size() + value.size(); ++i) {
      Put<char>(begin + at + 8 + i, i < key.size() ? key[i] : value[i - key.size()]);
    }
    return begin + at;
  }
  void AddRecord(uint64_t page, uint16_t at, const std::string& key, const std::string& value) {
    AddNode(page, at, value.size(), key, value);
  }

  // "key=value" of all records.
  absl::StatusOr<std::vector<std::string>> ReadAll() {
    ASSIGN_OR_RETURN(const std::unique_ptr<LmdbRecords> records, LmdbRecords::Open(Write("data.mdb", bytes_)));
    std::vector<std::string> all;
    std::string key, value;
    while (true) {
      ASSIGN_OR_RETURN(const bool more, records->Next(&key, &value));
      if (!more) return all;
      all.push_back(key + "=" + value);
    }
  }
  // A root with two leaves.
  void MakeTree() {
    SetRoot(2, 3);
    PutPage(2, 0x01);
    PutPage(3, 0x02);
    PutPage(4, 0x02);
    AddNode(2, 200, 3, "", "");
    AddNode(2, 180, 4, "c", "");
    AddRecord(3, 200, "a", "one");
    AddRecord(3, 150, "b", "");
    AddRecord(4, 200, "c", "three");
  }

  std::string bytes_;
};

TEST_F(LmdbTest, RecordsComeInTheOrderOfTheTree) {
  MakeTree();
  EXPECT_THAT(ReadAll().value(), testing::ElementsAre("a=one", "b=", "c=three"));
}

TEST_F(LmdbTest, AnEmptyDatabase) { EXPECT_THAT(ReadAll().value(), testing::IsEmpty()); }

TEST_F(LmdbTest, AFolderHasAFileOfTheName) {
  MakeTree();
  ASSERT_TRUE(ReadAll().ok());
  EXPECT_TRUE(LmdbRecords::Open(folder_).ok());
  EXPECT_TRUE(absl::IsNotFound(LmdbRecords::Open(Path("other")).status()));
}

TEST_F(LmdbTest, ALargeValueLiesOnPagesOfItsOwn) {
  SetRoot(2, 1);
  PutPage(2, 0x02);
  const uint64_t node = AddNode(2, 200, 300, "k", std::string("\x03\0\0\0\0\0\0\0", 8));
  Put<uint16_t>(node + 4, 0x01);
  PutPage(3, 0x04);
  for (uint64_t i = 0; i < 300; ++i) Put<char>(3 * kPage + 16 + i, 'x');
  EXPECT_THAT(ReadAll().value(), testing::ElementsAre("k=" + std::string(300, 'x')));
  Put<uint32_t>(node, 4000000000u);  // longer than the file: no memory is allocated
  EXPECT_TRUE(absl::IsDataLoss(ReadAll().status()));
}

TEST_F(LmdbTest, CirclesEnd) {
  MakeTree();
  Put<uint32_t>(2 * kPage + 180, 2);  // the root is its own child
  EXPECT_TRUE(absl::IsDataLoss(ReadAll().status()));
}

TEST_F(LmdbTest, AnotherFile) {
  bytes_ = "this is not a database";
  EXPECT_TRUE(absl::IsDataLoss(ReadAll().status()));
  bytes_ = std::string(1000, 'x');
  EXPECT_TRUE(absl::IsDataLoss(ReadAll().status()));
}

TEST_F(LmdbTest, DamagedFilesAreRefused) {
  MakeTree();
  const std::string sound = bytes_;
  uint64_t state = 1;
  for (int i = 0; i < 3000; ++i) {
    bytes_ = sound;
    for (int k = 0; k < 3; ++k) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      bytes_[(state >> 33) % bytes_.size()] = static_cast<char>(state >> 25);
    }
    if (i % 5 == 0) bytes_.resize((state >> 40) % bytes_.size());
    const absl::StatusOr<std::vector<std::string>> all = ReadAll();
    if (all.ok()) {
      EXPECT_LE(all->size(), sound.size());
    }
  }
}

}  // namespace
}  // namespace thalweg
