// SPDX-License-Identifier: Apache-2.0
// Files as sequences of records, whatever their format.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "thalweg/base/file_system.h"
#include "thalweg/data/byte_stream.h"

namespace thalweg::data {

// The records of one file, from front to back. Not thread-safe.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  // The next record; false at the end. Errors say what is wrong; the caller
  // adds the file and the number of the record.
  virtual absl::StatusOr<bool> Next(std::string* record) = 0;
};

// Opens a file of some format.
using RecordFormat = std::function<absl::StatusOr<std::unique_ptr<RecordSource>>(const std::string&, FileSystem&)>;

// The header and the compression of a file of records of one length.
struct FixedLengthOptions {
  uint64_t header_bytes = 0;                     // passed over at the beginning of the file
  Compression compression = Compression::kNone;  // compression of the file
};
// Records of `bytes` bytes each. DATA_LOSS if the last one is not whole.
RecordFormat FixedLengthRecords(uint64_t bytes, const FixedLengthOptions& options = {});

// The header and the compression of a text file.
struct TextLinesOptions {
  int64_t skip_lines = 0;                        // the header of a CSV file, say
  Compression compression = Compression::kNone;  // compression of the file
};
// Lines of text, without their ends.
RecordFormat TextLines(const TextLinesOptions& options = {});

// TFRecord files (tfrecord.h).
RecordFormat TfRecords(Compression compression = Compression::kNone);

}  // namespace thalweg::data
