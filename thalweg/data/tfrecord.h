// SPDX-License-Identifier: Apache-2.0
// TFRecord, TensorFlow's file of records: each is its length (8 bytes, little
// endian), the checksum of those (4 bytes), the data, and the checksum of the
// data. Checksums are CRC-32C, masked. A whole file may be compressed.
//
// The record "ab" is
//   02 00 00 00 00 00 00 00  <masked crc of the 8 bytes>  61 62  <masked crc of "ab">
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/file_system.h"
#include "thalweg/data/byte_stream.h"

namespace thalweg::data {

// Reads a TFRecord file. Not thread-safe.
class RecordReader {
 public:
  // Opens a file.
  static absl::StatusOr<std::unique_ptr<RecordReader>> Open(const std::string& path,
                                                            Compression compression = Compression::kNone,
                                                            FileSystem& files = PosixFileSystem());

  // Reads the next record; false at the end. DATA_LOSS, naming the file and the offset of the
  // record, if it is damaged. Every later call then fails, too.
  absl::StatusOr<bool> Next(std::string* record);
  // Skips bytes of the decompressed data. OUT_OF_RANGE at the end of the file.
  absl::Status Skip(uint64_t bytes);
  // The offset of the next record in the decompressed data.
  uint64_t offset() const { return offset_; }

 private:
  RecordReader(std::string path, std::unique_ptr<ByteStream> stream)
      : path_(std::move(path)), stream_(std::move(stream)) {}
  absl::StatusOr<bool> ReadOne(std::string* record);
  absl::Status Damaged(absl::string_view how) const;

  const std::string path_;
  const std::unique_ptr<ByteStream> stream_;
  uint64_t offset_ = 0;
  absl::Status error_;
};

// Writes a TFRecord file. Not thread-safe. Call Close() to learn whether everything was written.
class RecordWriter {
 public:
  // Creates a file, or replaces it.
  static absl::StatusOr<std::unique_ptr<RecordWriter>> Open(const std::string& path,
                                                            Compression compression = Compression::kNone,
                                                            FileSystem& files = PosixFileSystem());
  virtual ~RecordWriter() = default;

  // Appends a record.
  [[nodiscard]] absl::Status Write(absl::string_view record);
  // Passes everything written so far to the operating system. A reader can decompress up to here.
  [[nodiscard]] virtual absl::Status Flush() = 0;
  // Flushes and closes the file.
  [[nodiscard]] virtual absl::Status Close() = 0;

 protected:
  // Appends bytes to the file, compressing them if needed.
  [[nodiscard]] virtual absl::Status Append(absl::string_view bytes) = 0;
};

}  // namespace thalweg::data
