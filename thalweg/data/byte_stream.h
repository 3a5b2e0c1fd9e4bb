// SPDX-License-Identifier: Apache-2.0
// Bytes of a file from front to back, unpacked on the way if it is compressed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/file_system.h"

namespace thalweg::data {

enum class Compression { kNone, kZlib, kGzip };

// "", "ZLIB" or "GZIP", as TensorFlow's ops call them. INVALID_ARGUMENT for any
// other name.
absl::StatusOr<Compression> CompressionFromName(absl::string_view name);

// Not thread-safe.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Up to n more bytes; fewer only at the end. DATA_LOSS, naming the file, if
  // the compression is broken.
  virtual absl::StatusOr<size_t> Read(char* out, size_t n) = 0;

  // Appends up to n bytes to `out`; takes no more memory than there are bytes,
  // whatever n is. Gives how many.
  absl::StatusOr<uint64_t> Append(uint64_t n, std::string* out);
  // Passes over up to n bytes. Gives how many.
  absl::StatusOr<uint64_t> Skip(uint64_t n);
  // The next line, without its end (LF or CRLF). False at the end of the file.
  absl::StatusOr<bool> ReadLine(std::string* line);

 private:
  std::string buffer_;  // for lines: what was read and not given
  size_t begin_ = 0;
};

// Buffered: small reads are cheap.
absl::StatusOr<std::unique_ptr<ByteStream>> OpenByteStream(const std::string& path,
                                                           Compression compression = Compression::kNone,
                                                           FileSystem& files = PosixFileSystem());

}  // namespace thalweg::data
