// SPDX-License-Identifier: Apache-2.0
#include "thalweg/data/tfrecord.h"

#include <snappy.h>
#include <zlib.h>

#include <cstring>
#include <utility>
#include <vector>

#include "thalweg/base/crc32c.h"
#include "thalweg/base/status.h"

namespace thalweg::data {
namespace {

constexpr size_t kHeader = 12, kFooter = 4;

template <typename T>
T Load(const char* bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return value;
}

template <typename T>
void Store(T value, char* bytes) {
  for (size_t i = 0; i < sizeof(T); ++i) bytes[i] = static_cast<char>(value >> (8 * i));
}

class PlainWriter final : public RecordWriter {
 public:
  explicit PlainWriter(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}
  absl::Status Flush() override { return file_->Flush(); }
  absl::Status Close() override { return file_->Close(); }

 private:
  absl::Status Append(absl::string_view bytes) override { return file_->Append(bytes); }

  const std::unique_ptr<WritableFile> file_;
};

class ZlibWriter final : public RecordWriter {
 public:
  explicit ZlibWriter(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}
  ~ZlibWriter() override {
    Close().IgnoreError();  // call Close() to learn about errors
    if (started_) deflateEnd(&stream_);
  }

  absl::Status Start(bool gzip) {
    if (deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip ? 16 + MAX_WBITS : MAX_WBITS, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
      return ResourceExhausted("no memory to compress");
    }
    started_ = true;
    return absl::OkStatus();
  }
  absl::Status Flush() override {
    RETURN_IF_ERROR(Deflate("", Z_SYNC_FLUSH));
    return file_->Flush();
  }
  absl::Status Close() override {
    if (closed_ || !started_) return absl::OkStatus();
    closed_ = true;
    RETURN_IF_ERROR(Deflate("", Z_FINISH));
    return file_->Close();
  }

 private:
  absl::Status Append(absl::string_view bytes) override {
    if (closed_) return FailedPrecondition("the file is closed");
    return Deflate(bytes, Z_NO_FLUSH);
  }
  absl::Status Deflate(absl::string_view bytes, int flush) {
    do {
      const size_t piece = std::min<size_t>(bytes.size(), 1u << 30);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
      stream_.avail_in = static_cast<uInt>(piece);
      bytes.remove_prefix(piece);
      const int mode = bytes.empty() ? flush : Z_NO_FLUSH;
      do {
        stream_.next_out = reinterpret_cast<Bytef*>(output_.data());
        stream_.avail_out = static_cast<uInt>(output_.size());
        if (deflate(&stream_, mode) == Z_STREAM_ERROR) return Internal("deflate");
        RETURN_IF_ERROR(file_->Append(absl::string_view(output_.data(), output_.size() - stream_.avail_out)));
      } while (stream_.avail_out == 0);
    } while (!bytes.empty());
    return absl::OkStatus();
  }

  const std::unique_ptr<WritableFile> file_;
  z_stream stream_ = {};
  bool started_ = false;
  bool closed_ = false;
  std::vector<char> output_ = std::vector<char>(64 << 10);
};

class SnappyWriter final : public RecordWriter {
 public:
  explicit SnappyWriter(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}
  ~SnappyWriter() override { Close().IgnoreError(); }  // call Close() to learn about errors

  absl::Status Flush() override {
    RETURN_IF_ERROR(WriteBlock());
    return file_->Flush();
  }
  absl::Status Close() override {
    if (closed_) return absl::OkStatus();
    closed_ = true;
    RETURN_IF_ERROR(WriteBlock());
    return file_->Close();
  }

 private:
  // TensorFlow's readers have a buffer of 256 KB for a block, compressed or not, and Snappy may lengthen data that it
  // cannot compress by a sixth.
  static constexpr size_t kBlockBytes = 128 << 10;

  absl::Status Append(absl::string_view bytes) override {
    if (closed_) return FailedPrecondition("the file is closed");
    while (!bytes.empty()) {
      const size_t take = std::min(bytes.size(), kBlockBytes - block_.size());
      block_.append(bytes.data(), take);
      bytes.remove_prefix(take);
      if (block_.size() == kBlockBytes) RETURN_IF_ERROR(WriteBlock());
    }
    return absl::OkStatus();
  }
  absl::Status WriteBlock() {
    if (block_.empty()) return absl::OkStatus();
    std::string packed;
    snappy::Compress(block_.data(), block_.size(), &packed);
    block_.clear();
    char length[4];
    for (int i = 0; i < 4; ++i) length[i] = static_cast<char>(packed.size() >> (8 * (3 - i)));
    RETURN_IF_ERROR(file_->Append(absl::string_view(length, sizeof(length))));
    return file_->Append(packed);
  }

  const std::unique_ptr<WritableFile> file_;
  std::string block_;
  bool closed_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordReader>> RecordReader::Open(const std::string& path, Compression compression,
                                                                 FileSystem& files) {
  ASSIGN_OR_RETURN(std::unique_ptr<ByteStream> stream, OpenByteStream(path, compression, files));
  return std::unique_ptr<RecordReader>(new RecordReader(path, std::move(stream)));
}

absl::Status RecordReader::Damaged(absl::string_view how) const {
  return DataLoss(how, " record at ", offset_, " of ", path_);
}

absl::StatusOr<bool> RecordReader::Next(std::string* record) {
  RETURN_IF_ERROR(error_);
  absl::StatusOr<bool> found = ReadOne(record);
  error_ = found.status();
  return found;
}

absl::Status RecordReader::Skip(uint64_t bytes) {
  ASSIGN_OR_RETURN(const uint64_t skipped, stream_->Skip(bytes));
  if (skipped < bytes) return OutOfRange(path_, " ends before offset ", offset_ + bytes);
  offset_ += bytes;
  return absl::OkStatus();
}

absl::StatusOr<bool> RecordReader::ReadOne(std::string* record) {
  char header[kHeader];
  ASSIGN_OR_RETURN(const size_t got, stream_->Read(header, kHeader));
  if (got == 0) return false;
  if (got < kHeader) return Damaged("truncated");
  if (UnmaskCrc(Load<uint32_t>(header + 8)) != Crc32c(header, 8)) return Damaged("corrupted");
  const auto length = Load<uint64_t>(header);
  record->clear();
  ASSIGN_OR_RETURN(const uint64_t data, stream_->Append(length, record));
  if (data < length) return Damaged("truncated");
  char footer[kFooter];
  ASSIGN_OR_RETURN(const size_t tail, stream_->Read(footer, kFooter));
  if (tail < kFooter) return Damaged("truncated");
  if (UnmaskCrc(Load<uint32_t>(footer)) != Crc32c(*record)) return Damaged("corrupted");
  offset_ += kHeader + length + kFooter;
  return true;
}

absl::Status RecordWriter::Write(absl::string_view record) {
  char header[kHeader], footer[kFooter];
  Store<uint64_t>(record.size(), header);
  Store<uint32_t>(MaskCrc(Crc32c(header, 8)), header + 8);
  Store<uint32_t>(MaskCrc(Crc32c(record)), footer);
  RETURN_IF_ERROR(Append(absl::string_view(header, kHeader)));
  RETURN_IF_ERROR(Append(record));
  return Append(absl::string_view(footer, kFooter));
}

absl::StatusOr<std::unique_ptr<RecordWriter>> RecordWriter::Open(const std::string& path, Compression compression,
                                                                 FileSystem& files) {
  ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files.NewWritableFile(path));
  if (compression == Compression::kNone) return std::make_unique<PlainWriter>(std::move(file));
  if (compression == Compression::kSnappy) return std::make_unique<SnappyWriter>(std::move(file));
  auto writer = std::make_unique<ZlibWriter>(std::move(file));
  RETURN_IF_ERROR(writer->Start(compression == Compression::kGzip));
  return writer;
}

}  // namespace thalweg::data
