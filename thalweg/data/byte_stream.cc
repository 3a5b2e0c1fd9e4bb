// SPDX-License-Identifier: Apache-2.0
#include "thalweg/data/byte_stream.h"

#include <snappy.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "thalweg/base/status.h"

namespace thalweg::data {
namespace {

constexpr size_t kBufferBytes = 256 << 10;

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(std::unique_ptr<RandomAccessFile> file) : file_(std::move(file)) {}

  absl::StatusOr<size_t> Read(char* out, size_t n) override {
    size_t done = 0;
    while (done < n) {
      if (begin_ == end_) {
        if (n - done >= kBufferBytes) {  // large reads need no copy
          ASSIGN_OR_RETURN(const size_t got, ReadInto(out + done, n - done));
          return done + got;
        }
        RETURN_IF_ERROR(Fill());
        if (begin_ == end_) break;
      }
      const size_t take = std::min(n - done, end_ - begin_);
      std::memcpy(out + done, buffer_.get() + begin_, take);
      begin_ += take;
      done += take;
    }
    return done;
  }

 private:
  absl::Status Fill() {
    if (buffer_ == nullptr) buffer_ = std::make_unique<char[]>(kBufferBytes);
    begin_ = end_ = 0;
    ASSIGN_OR_RETURN(end_, ReadInto(buffer_.get(), kBufferBytes));
    return absl::OkStatus();
  }

  // The next at most n bytes of the file. A file may lend its own memory, null at its end.
  absl::StatusOr<size_t> ReadInto(char* out, size_t n) {
    ASSIGN_OR_RETURN(const absl::string_view got, file_->Read(offset_, n, out));
    if (!got.empty() && got.data() != out) std::memmove(out, got.data(), got.size());
    offset_ += got.size();
    return got.size();
  }

  const std::unique_ptr<RandomAccessFile> file_;
  uint64_t offset_ = 0;
  std::unique_ptr<char[]> buffer_;
  size_t begin_ = 0, end_ = 0;
};

// A gzip file may have several members, one after the other.
class ZlibStream final : public ByteStream {
 public:
  ZlibStream(std::string path, std::unique_ptr<ByteStream> packed, bool gzip)
      : path_(std::move(path)), packed_(std::move(packed)), gzip_(gzip) {}
  ~ZlibStream() override {
    if (started_) inflateEnd(&stream_);
  }

  absl::Status Start() {
    if (inflateInit2(&stream_, gzip_ ? 16 + MAX_WBITS : MAX_WBITS) != Z_OK) {
      return ResourceExhausted("no memory to unpack ", path_);
    }
    started_ = true;
    return absl::OkStatus();
  }

  absl::StatusOr<size_t> Read(char* out, size_t n) override {
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    size_t done = 0;
    while (done < n && !ended_) {
      if (stream_.avail_in == 0) RETURN_IF_ERROR(Refill());
      if (stream_.avail_in == 0) {
        if (inside_) return DataLoss(path_, ": compressed data ends too early");
        break;
      }
      inside_ = true;
      const auto room = static_cast<uInt>(std::min<size_t>(n - done, 1u << 30));
      stream_.avail_out = room;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      done += room - stream_.avail_out;
      if (result == Z_STREAM_END) {
        inside_ = false;  // the end of a member; in a gzip file another one may follow
        if (!gzip_) ended_ = true;
        if (gzip_ && inflateReset(&stream_) != Z_OK) return Internal("inflateReset");
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        return DataLoss(path_, ": broken compression: ", stream_.msg != nullptr ? stream_.msg : "no message");
      }
    }
    return done;
  }

 private:
  absl::Status Refill() {
    if (input_ == nullptr) input_ = std::make_unique<char[]>(kBufferBytes);
    ASSIGN_OR_RETURN(const size_t got, packed_->Read(input_.get(), kBufferBytes));
    stream_.next_in = reinterpret_cast<Bytef*>(input_.get());
    stream_.avail_in = static_cast<uInt>(got);
    return absl::OkStatus();
  }

  const std::string path_;
  const std::unique_ptr<ByteStream> packed_;
  const bool gzip_;
  z_stream stream_ = {};
  bool started_ = false;
  bool inside_ = false;  // a member has begun and not ended
  bool ended_ = false;
  std::unique_ptr<char[]> input_;
};

class SnappyStream final : public ByteStream {
 public:
  SnappyStream(std::string path, std::unique_ptr<ByteStream> packed)
      : path_(std::move(path)), packed_(std::move(packed)) {}

  absl::StatusOr<size_t> Read(char* out, size_t n) override {
    size_t done = 0;
    while (done < n) {
      if (begin_ == block_.size()) {
        ASSIGN_OR_RETURN(const bool more, NextBlock());
        if (!more) break;
      }
      const size_t take = std::min(n - done, block_.size() - begin_);
      std::memcpy(out + done, block_.data() + begin_, take);
      begin_ += take;
      done += take;
    }
    return done;
  }

 private:
  absl::StatusOr<bool> NextBlock() {
    unsigned char header[4];
    ASSIGN_OR_RETURN(const size_t got, packed_->Read(reinterpret_cast<char*>(header), sizeof(header)));
    if (got == 0) return false;
    if (got < sizeof(header)) return DataLoss(path_, ": compressed data ends too early");
    const uint64_t length = uint64_t{header[0]} << 24 | header[1] << 16 | header[2] << 8 | header[3];
    std::string packed;
    ASSIGN_OR_RETURN(const uint64_t size, packed_->Append(length, &packed));
    if (size < length) return DataLoss(path_, ": compressed data ends too early");
    // A copy of up to 64 bytes takes at least 2 bytes, so a larger claim is wrong: do not allocate for it.
    size_t unpacked = 0;
    if (!snappy::GetUncompressedLength(packed.data(), packed.size(), &unpacked) || unpacked > packed.size() * 64 ||
        !snappy::Uncompress(packed.data(), packed.size(), &block_)) {
      return DataLoss(path_, ": broken compression: not a Snappy block");
    }
    begin_ = 0;
    return true;
  }

  const std::string path_;
  const std::unique_ptr<ByteStream> packed_;
  std::string block_;
  size_t begin_ = 0;
};

}  // namespace

absl::StatusOr<Compression> CompressionFromName(absl::string_view name) {
  if (name.empty()) return Compression::kNone;
  if (name == "ZLIB") return Compression::kZlib;
  if (name == "GZIP") return Compression::kGzip;
  if (name == "SNAPPY") return Compression::kSnappy;
  return InvalidArgument("unknown compression '", name, "', expected '', 'ZLIB', 'GZIP' or 'SNAPPY'");
}

// Grows `out` piece by piece, because n comes from files and may be far larger than the file.
absl::StatusOr<uint64_t> ByteStream::Append(uint64_t n, std::string* out) {
  constexpr uint64_t kPiece = 1 << 20;
  uint64_t done = 0;
  while (done < n) {
    const size_t piece = std::min(kPiece, n - done);
    const size_t size = out->size();
    out->resize(size + piece);
    ASSIGN_OR_RETURN(const size_t got, Read(out->data() + size, piece));
    out->resize(size + got);
    done += got;
    if (got < piece) break;
  }
  return done;
}

absl::StatusOr<uint64_t> ByteStream::Skip(uint64_t n) {
  char scratch[4096];
  uint64_t done = 0;
  while (done < n) {
    const size_t piece = std::min<uint64_t>(sizeof(scratch), n - done);
    ASSIGN_OR_RETURN(const size_t got, Read(scratch, piece));
    done += got;
    if (got < piece) break;
  }
  return done;
}

absl::StatusOr<bool> ByteStream::ReadLine(std::string* line) {
  line->clear();
  bool any = false;
  for (;;) {
    const size_t end = buffer_.find('\n', begin_);
    if (end != std::string::npos) {
      line->append(buffer_, begin_, end - begin_);
      begin_ = end + 1;
      any = true;
      break;
    }
    line->append(buffer_, begin_, std::string::npos);
    buffer_.resize(64 << 10);
    begin_ = 0;
    absl::StatusOr<size_t> got = Read(buffer_.data(), buffer_.size());
    buffer_.resize(got.ok() ? *got : 0);
    if (!got.ok()) return got.status();
    if (*got == 0) break;
  }
  if (!line->empty() && line->back() == '\r') line->pop_back();
  return any || !line->empty();
}

absl::StatusOr<std::unique_ptr<ByteStream>> OpenByteStream(const std::string& path, Compression compression,
                                                           FileSystem& files) {
  ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file, files.NewRandomAccessFile(path));
  std::unique_ptr<ByteStream> plain = std::make_unique<PlainStream>(std::move(file));
  if (compression == Compression::kNone) return plain;
  if (compression == Compression::kSnappy) return std::make_unique<SnappyStream>(path, std::move(plain));
  auto stream = std::make_unique<ZlibStream>(path, std::move(plain), compression == Compression::kGzip);
  RETURN_IF_ERROR(stream->Start());
  return stream;
}

}  // namespace thalweg::data
