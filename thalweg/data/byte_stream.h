// SPDX-License-Identifier: Apache-2.0
// Sequential reads of a file, decompressed on the fly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/file_system.h"

namespace thalweg::data {

// How a file is compressed.
enum class Compression {
  kNone,
  kZlib,  // RFC 1950
  kGzip,  // RFC 1952
  // TensorFlow's stream of Snappy blocks: each is the length of the compressed block (4 bytes, big endian) and
  // the block.
  kSnappy,
};

// "", "ZLIB", "GZIP" or "SNAPPY", as TensorFlow's ops call them. INVALID_ARGUMENT for any
// other name.
absl::StatusOr<Compression> CompressionFromName(absl::string_view name);

// Reads a file from front to back. Not thread-safe.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Reads up to n bytes into `out` and returns how many; fewer than n only at the
  // end. DATA_LOSS, naming the file, if the compressed data is damaged.
  virtual absl::StatusOr<size_t> Read(char* out, size_t n) = 0;

  // Appends up to n bytes to `out` and returns how many. Allocates only for the
  // bytes that exist, however large n is.
  absl::StatusOr<uint64_t> Append(uint64_t n, std::string* out);
  // Skips up to n bytes and returns how many.
  absl::StatusOr<uint64_t> Skip(uint64_t n);
  // The next line, without its end (LF or CRLF). False at the end of the file.
  absl::StatusOr<bool> ReadLine(std::string* line);

 private:
  std::string buffer_;  // bytes read ahead of the next line
  size_t begin_ = 0;
};

// Opens a file for sequential reads. Reads are buffered, so small ones are cheap.
absl::StatusOr<std::unique_ptr<ByteStream>> OpenByteStream(const std::string& path,
                                                           Compression compression = Compression::kNone,
                                                           FileSystem& files = PosixFileSystem());

}  // namespace thalweg::data
