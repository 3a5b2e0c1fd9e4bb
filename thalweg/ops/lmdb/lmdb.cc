// SPDX-License-Identifier: Apache-2.0
// The format, in numbers of little-endian order. A file consists of pages of one size. Each begins with a header of 16
// bytes: its number (8), padding (2), flags (2), and the end of the table of nodes (2). Pages 0 and 1 hold the
// description of the database; the one with the higher transaction number is valid. The others form a B+ tree.
//
// Behind the header of a tree page is a table with the 2-byte offset of every node. A node of 8 bytes and a key is:
//   leaf: low and high half of the size of the value (2 + 2), flags (2), size of the key (2), key, value
//   branch: the page of the child (2 + 2 + 2), size of the key (2), key
// A large value lies on pages of its own, behind their header. The node then has the number of the first page.
#include "thalweg/ops/lmdb/lmdb.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "thalweg/base/status.h"

namespace thalweg {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kLmdbHeader = 16;
constexpr uint16_t kBranchPage = 0x01, kLeafPage = 0x02, kOverflowPage = 0x04, kMetaPage = 0x08;
constexpr uint16_t kBigValue = 0x01, kNestedDatabase = 0x02, kDuplicates = 0x04;
constexpr uint32_t kLmdbMagic = 0xBEEFC0DE;
constexpr uint32_t kLmdbVersion = 1;
constexpr uint64_t kNoPage = ~uint64_t{0};
constexpr size_t kMostLevels = 32;  // LMDB's own limit

// REQUIRES: the number lies in `bytes`.
template <typename T>
T NumberAt(const std::string& bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

}  // namespace

absl::Status LmdbRecords::Damaged(absl::string_view what) const {
  return DataLoss("the LMDB database ", path_, " is damaged: ", what);
}

absl::StatusOr<std::unique_ptr<LmdbRecords>> LmdbRecords::Open(const std::string& path) {
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> file = PosixFileSystem().NewRandomAccessFile(path);
  if (absl::IsFailedPrecondition(file.status())) {  // a folder
    file = PosixFileSystem().NewRandomAccessFile(absl::StrCat(path, "/data.mdb"));
  }
  RETURN_IF_ERROR(file.status());
  std::unique_ptr<LmdbRecords> records(new LmdbRecords(path, *std::move(file)));
  RETURN_IF_ERROR(records->ReadMeta());
  return records;
}

absl::StatusOr<std::string> LmdbRecords::ReadAt(uint64_t offset, uint64_t size) const {
  // Before memory is allocated, and without overflow.
  if (offset > file_size_ || size > file_size_ - offset) {
    return Damaged(absl::StrCat(size, " bytes at ", offset, " of a file of ", file_size_, " bytes"));
  }
  std::string bytes(size, '\0');
  ASSIGN_OR_RETURN(const absl::string_view read, file_->Read(offset, size, bytes.data()));
  if (read.size() != size) return Damaged("the file has become shorter");
  return bytes;
}

absl::Status LmdbRecords::ReadMeta() {
  ASSIGN_OR_RETURN(file_size_, file_->Size());
  constexpr uint64_t kMetaSize = 152;  // header, magic, version, address, size, two trees, last page, transaction
  constexpr uint64_t kMagicAt = 16, kVersionAt = 20, kPageSizeAt = 40, kFlagsAt = 92, kEntriesAt = 120, kRootAt = 128,
                     kTransactionAt = 144;
  uint64_t root = kNoPage, newest = 0, offset = 0;
  for (int i = 0; i < 2; ++i) {
    ASSIGN_OR_RETURN(const std::string meta, ReadAt(offset, kMetaSize));
    if ((NumberAt<uint16_t>(meta, 10) & kMetaPage) == 0 || NumberAt<uint32_t>(meta, kMagicAt) != kLmdbMagic) {
      return DataLoss(path_, " is not an LMDB database");
    }
    if (NumberAt<uint32_t>(meta, kVersionAt) != kLmdbVersion) {
      return Unimplemented("the LMDB database ", path_, " has version ", NumberAt<uint32_t>(meta, kVersionAt));
    }
    const uint64_t page_size = NumberAt<uint32_t>(meta, kPageSizeAt);
    constexpr uint64_t kLeastPage = 256, kMostPage = 65536;
    if (i == 0) page_size_ = page_size;
    if (!std::has_single_bit(page_size) || page_size < kLeastPage || page_size > kMostPage || page_size != page_size_) {
      return Damaged(absl::StrCat("pages of ", page_size, " bytes"));
    }
    offset = page_size_;
    const uint64_t transaction = NumberAt<uint64_t>(meta, kTransactionAt);
    if (i == 1 && transaction <= newest) continue;
    newest = transaction;
    if ((NumberAt<uint16_t>(meta, kFlagsAt) & kDuplicates) != 0) {
      return Unimplemented("the LMDB database ", path_, " has duplicate keys");
    }
    records_left_ = NumberAt<uint64_t>(meta, kEntriesAt);
    root = NumberAt<uint64_t>(meta, kRootAt);
  }
  return root == kNoPage ? absl::OkStatus() : Push(root);
}

absl::Status LmdbRecords::Push(uint64_t number) {
  if (levels_.size() == kMostLevels) return Damaged("the tree is too deep");
  if (number > file_size_ / page_size_) return Damaged(absl::StrCat("there is no page ", number));
  ASSIGN_OR_RETURN(std::string page, ReadAt(number * page_size_, page_size_));
  const auto flags = NumberAt<uint16_t>(page, 10), table_end = NumberAt<uint16_t>(page, 12);
  if (NumberAt<uint64_t>(page, 0) != number) return Damaged(absl::StrCat("page ", number, " has another number"));
  if ((flags & (kBranchPage | kLeafPage)) == 0) return Damaged(absl::StrCat("page ", number, " is not of the tree"));
  if (table_end < kLmdbHeader || table_end > page_size_) return Damaged(absl::StrCat("the table of page ", number));
  levels_.push_back({std::move(page), 0});
  return absl::OkStatus();
}

absl::StatusOr<std::string> LmdbRecords::ReadOverflow(uint64_t number, uint64_t size) const {
  if (number > file_size_ / page_size_) return Damaged(absl::StrCat("there is no page ", number));
  const uint64_t offset = number * page_size_;
  ASSIGN_OR_RETURN(const std::string header, ReadAt(offset, kLmdbHeader));
  if ((NumberAt<uint16_t>(header, 10) & kOverflowPage) == 0) {
    return Damaged(absl::StrCat("page ", number, " does not hold a value"));
  }
  return ReadAt(offset + kLmdbHeader, size);
}

absl::StatusOr<bool> LmdbRecords::Next(std::string* key, std::string* value) {
  while (!levels_.empty()) {
    Level& level = levels_.back();
    const std::string& page = level.page;
    const int nodes = (NumberAt<uint16_t>(page, 12) - static_cast<int>(kLmdbHeader)) / 2;
    if (level.next >= nodes) {
      levels_.pop_back();
      continue;
    }
    const uint64_t node = NumberAt<uint16_t>(page, kLmdbHeader + 2 * static_cast<uint64_t>(level.next++));
    constexpr uint64_t kNodeHeader = 8;
    if (node < kLmdbHeader || node > page_size_ - kNodeHeader) return Damaged("a node lies outside of its page");
    const uint64_t low = NumberAt<uint16_t>(page, node), high = NumberAt<uint16_t>(page, node + 2);
    const auto flags = NumberAt<uint16_t>(page, node + 4), key_size = NumberAt<uint16_t>(page, node + 6);
    if ((NumberAt<uint16_t>(page, 10) & kBranchPage) != 0) {
      RETURN_IF_ERROR(Push(low | high << 16 | uint64_t{flags} << 32));
      continue;
    }
    // Pages that refer to each other could go on for ever.
    if (records_left_ == 0) return Damaged("there are more records than its description says");
    --records_left_;
    if ((flags & (kNestedDatabase | kDuplicates)) != 0) {
      return Unimplemented("the LMDB database ", path_, " has nested databases or duplicate keys");
    }
    const uint64_t key_at = node + kNodeHeader, value_at = key_at + key_size, size = low | high << 16;
    const bool big = (flags & kBigValue) != 0;
    if (value_at > page_size_ || (big ? sizeof(uint64_t) : size) > page_size_ - value_at) {
      return Damaged("a record lies outside of its page");
    }
    *key = page.substr(key_at, key_size);
    if (big) {
      ASSIGN_OR_RETURN(*value, ReadOverflow(NumberAt<uint64_t>(page, value_at), size));
    } else {
      *value = page.substr(value_at, size);
    }
    return true;
  }
  return false;
}

}  // namespace thalweg
