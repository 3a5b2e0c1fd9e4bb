// SPDX-License-Identifier: Apache-2.0
#include "thalweg/data/records.h"

#include <utility>

#include "thalweg/base/status.h"
#include "thalweg/data/tfrecord.h"

namespace thalweg::data {
namespace {

class FixedLengthSource : public RecordSource {
 public:
  FixedLengthSource(std::unique_ptr<ByteStream> stream, uint64_t bytes) : stream_(std::move(stream)), bytes_(bytes) {}

  absl::StatusOr<bool> Next(std::string* record) override {
    record->clear();
    ASSIGN_OR_RETURN(const uint64_t got, stream_->Append(bytes_, record));
    if (got == bytes_) return true;
    if (got > 0) return DataLoss("expected ", bytes_, " bytes, but the file ends after ", got);
    return false;
  }

 private:
  const std::unique_ptr<ByteStream> stream_;
  const uint64_t bytes_;
};

class LineSource : public RecordSource {
 public:
  explicit LineSource(std::unique_ptr<ByteStream> stream) : stream_(std::move(stream)) {}
  absl::StatusOr<bool> Next(std::string* record) override { return stream_->ReadLine(record); }

 private:
  const std::unique_ptr<ByteStream> stream_;
};

class TfRecordSource : public RecordSource {
 public:
  explicit TfRecordSource(std::unique_ptr<RecordReader> reader) : reader_(std::move(reader)) {}
  absl::StatusOr<bool> Next(std::string* record) override { return reader_->Next(record); }

 private:
  const std::unique_ptr<RecordReader> reader_;
};

using Opened = absl::StatusOr<std::unique_ptr<RecordSource>>;

}  // namespace

RecordFormat FixedLengthRecords(uint64_t bytes, const FixedLengthOptions& options) {
  return [=](const std::string& path, FileSystem& files) -> Opened {
    if (bytes == 0) return InvalidArgument("records of 0 bytes");
    ASSIGN_OR_RETURN(auto stream, OpenByteStream(path, options.compression, files));
    ASSIGN_OR_RETURN(const uint64_t skipped, stream->Skip(options.header_bytes));
    if (skipped < options.header_bytes) {
      return DataLoss("expected a header of ", options.header_bytes, " bytes, got ", skipped);
    }
    return std::make_unique<FixedLengthSource>(std::move(stream), bytes);
  };
}

RecordFormat TextLines(const TextLinesOptions& options) {
  return [=](const std::string& path, FileSystem& files) -> Opened {
    ASSIGN_OR_RETURN(auto stream, OpenByteStream(path, options.compression, files));
    std::string line;
    for (int64_t i = 0; i < options.skip_lines; ++i) {
      ASSIGN_OR_RETURN(const bool found, stream->ReadLine(&line));
      if (!found) break;
    }
    return std::make_unique<LineSource>(std::move(stream));
  };
}

RecordFormat TfRecords(Compression compression) {
  return [=](const std::string& path, FileSystem& files) -> Opened {
    ASSIGN_OR_RETURN(auto reader, RecordReader::Open(path, compression, files));
    return std::make_unique<TfRecordSource>(std::move(reader));
  };
}

}  // namespace thalweg::data
