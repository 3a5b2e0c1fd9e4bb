// SPDX-License-Identifier: Apache-2.0
// Reads the records of an LMDB database in the order of their keys. The file is untrusted: every offset is checked, and
// only what a record needs is read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/base/file_system.h"

namespace thalweg {

// Not thread-safe. The main database without duplicate keys or nested databases, written on a little-endian machine
// of 64 bits. The file must not change while it is read.
class LmdbRecords {
 public:
  // `path` is the file or the folder with the file "data.mdb". DATA_LOSS if it is not an LMDB database.
  static absl::StatusOr<std::unique_ptr<LmdbRecords>> Open(const std::string& path);

  // False after the last record. DATA_LOSS if the file is damaged.
  absl::StatusOr<bool> Next(std::string* key, std::string* value);

 private:
  // A page on the path from the root to the next record.
  struct Level {
    std::string page;
    int next = 0;  // index of the next node
  };

  LmdbRecords(std::string path, std::unique_ptr<RandomAccessFile> file)
      : path_(std::move(path)), file_(std::move(file)) {}

  absl::Status ReadMeta();
  absl::StatusOr<std::string> ReadAt(uint64_t offset, uint64_t size) const;
  // Reads a page of the tree and puts it on the path.
  absl::Status Push(uint64_t number);
  absl::StatusOr<std::string> ReadOverflow(uint64_t number, uint64_t size) const;
  absl::Status Damaged(absl::string_view what) const;

  const std::string path_;
  const std::unique_ptr<RandomAccessFile> file_;
  uint64_t file_size_ = 0;
  uint64_t page_size_ = 0;
  uint64_t records_left_ = 0;
  std::vector<Level> levels_;  // from the root
};

}  // namespace thalweg
