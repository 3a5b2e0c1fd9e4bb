// SPDX-License-Identifier: Apache-2.0
// Tables: files of sorted keys and values in leveldb's format. The block size is
// TensorFlow's, so equal contents give equal bytes.
//
//   block*, metaindex block (empty), index block, footer (48 bytes)
//
// A block consists of entries with prefix-compressed keys and the offsets of the restart
// points, which have complete keys. One byte for the compression and four bytes of checksum
// follow.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/file_system.h"

namespace leveldb {
class TableBuilder;
}

namespace thalweg {

// Writes a table to a borrowed file. Not thread-safe.
class TableWriter {
 public:
  explicit TableWriter(WritableFile& file);
  ~TableWriter();

  // REQUIRES: keys are added in strictly ascending order.
  void Add(absl::string_view key, absl::string_view value);
  // Completes the table. Returns the first error of any write. Neither syncs nor closes the
  // file.
  [[nodiscard]] absl::Status Finish();

 private:
  class File;

  const std::unique_ptr<File> file_;
  const std::unique_ptr<leveldb::TableBuilder> builder_;
  bool empty_ = true;
  bool finished_ = false;
};

// Reads a table. Every length, offset and checksum is checked before it is used. DATA_LOSS,
// naming the file, if it is damaged or not a table. Thread-safe.
class Table {
 public:
  using Entry = std::pair<std::string, std::string>;

  static absl::StatusOr<std::unique_ptr<Table>> Open(FileSystem& files, const std::string& path);

  // NOT_FOUND if there is no such key.
  absl::StatusOr<std::string> Find(absl::string_view key) const;
  // All entries in key order.
  absl::StatusOr<std::vector<Entry>> ReadAll() const;

 private:
  struct Handle {
    uint64_t offset = 0;
    uint64_t size = 0;
  };
  struct BlockRef {
    std::string last_key;  // no key of the block is greater
    Handle handle;
  };

  Table(std::string path, std::unique_ptr<RandomAccessFile> file, uint64_t size)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {}

  absl::Status Corrupt(absl::string_view what) const;
  absl::Status ReadIndex();
  bool ParseHandle(absl::string_view* bytes, Handle* handle) const;
  absl::StatusOr<std::string> ReadBlock(const Handle& handle) const;
  absl::StatusOr<std::vector<Entry>> ParseBlock(absl::string_view block) const;

  const std::string path_;
  const std::unique_ptr<RandomAccessFile> file_;
  const uint64_t size_;
  std::vector<BlockRef> blocks_;  // constant after Open
};

}  // namespace thalweg
