// SPDX-License-Identifier: Apache-2.0
#include "thalweg/checkpoint/table.h"

#include <leveldb/env.h>
#include <leveldb/options.h>
#include <leveldb/table_builder.h>
#include <snappy.h>

#include <algorithm>
#include <cstring>

#include "thalweg/base/crc32c.h"
#include "thalweg/base/status.h"
#include "thalweg/base/varint.h"

namespace thalweg {
namespace {

constexpr size_t kBlockSize = 262144;
constexpr size_t kTrailerSize = 5;  // kind of compression, checksum
constexpr size_t kFooterSize = 48;  // two handles of up to 20 bytes each, and the magic number
constexpr uint64_t kMagic = 0xdb4775248b80fb57;
constexpr char kUncompressed = 0;
constexpr char kSnappy = 1;
// The largest plausible compression ratio. It bounds the memory that is allocated for the
// uncompressed size that a block claims.
constexpr size_t kMaxSnappyRatio = 64;
// Blocks are as large as their largest entry, which is a message.
constexpr uint64_t kMaxBlockSize = uint64_t{1} << 32;
// The largest total size of the expanded keys of a block, as a multiple of the block's size.
constexpr size_t kMaxKeyRatio = 20;
constexpr size_t kMaxBlockSlack = 64 << 10;

leveldb::Options WriterOptions() {
  leveldb::Options options;
  options.block_size = kBlockSize;
  options.block_restart_interval = 16;
  options.compression = leveldb::kNoCompression;
  return options;
}

uint32_t Load32(const char* bytes) {
  uint32_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

leveldb::Slice ToSlice(absl::string_view text) { return leveldb::Slice(text.data(), text.size()); }

}  // namespace

// Passes on what the builder writes, and keeps our error: leveldb's has no code.
class TableWriter::File final : public leveldb::WritableFile {
 public:
  explicit File(thalweg::WritableFile& file) : file_(file) {}
  leveldb::Status Append(const leveldb::Slice& data) override {
    if (status_.ok()) status_ = file_.Append(absl::string_view(data.data(), data.size()));
    return status_.ok() ? leveldb::Status::OK() : leveldb::Status::IOError("append");
  }
  leveldb::Status Close() override { return leveldb::Status::OK(); }
  leveldb::Status Flush() override { return leveldb::Status::OK(); }
  leveldb::Status Sync() override { return leveldb::Status::OK(); }
  const absl::Status& status() const { return status_; }

 private:
  thalweg::WritableFile& file_;
  absl::Status status_;
};

TableWriter::TableWriter(WritableFile& file)
    : file_(std::make_unique<File>(file)),
      builder_(std::make_unique<leveldb::TableBuilder>(WriterOptions(), file_.get())) {}

TableWriter::~TableWriter() {
  if (!finished_) builder_->Abandon();
}

void TableWriter::Add(absl::string_view key, absl::string_view value) {
  // A very large entry gets its own block, as in TensorFlow.
  if (!empty_ && key.size() + value.size() >= 2 * kBlockSize) builder_->Flush();
  builder_->Add(ToSlice(key), ToSlice(value));
  empty_ = false;
}

absl::Status TableWriter::Finish() {
  finished_ = true;
  const leveldb::Status status = builder_->Finish();
  RETURN_IF_ERROR(file_->status());
  return status.ok() ? absl::OkStatus() : Internal("table: ", status.ToString());
}

absl::Status Table::Corrupt(absl::string_view what) const {
  return DataLoss("Unable to read file (", path_, "): ", what, ". Perhaps the file is corrupt or no table");
}

absl::StatusOr<std::unique_ptr<Table>> Table::Open(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file, files.NewRandomAccessFile(path));
  ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  std::unique_ptr<Table> table(new Table(path, std::move(file), size));
  RETURN_IF_ERROR(table->ReadIndex());
  return table;
}

absl::Status Table::ReadIndex() {
  if (size_ < kFooterSize) return Corrupt("file is too short to be an sstable");
  char scratch[kFooterSize];
  ASSIGN_OR_RETURN(absl::string_view footer, file_->Read(size_ - kFooterSize, kFooterSize, scratch));
  if (footer.size() != kFooterSize) return Corrupt("the footer is cut off");
  uint64_t magic;
  std::memcpy(&magic, footer.data() + kFooterSize - sizeof(magic), sizeof(magic));
  if (magic != kMagic) return Corrupt("not an sstable (bad magic number)");
  Handle filters, index;
  if (!ParseHandle(&footer, &filters) || !ParseHandle(&footer, &index)) return Corrupt("bad block handle");
  RETURN_IF_ERROR(ReadBlock(filters).status());  // it is empty, but it may be damaged
  ASSIGN_OR_RETURN(const std::string block, ReadBlock(index));
  ASSIGN_OR_RETURN(std::vector<Entry> entries, ParseBlock(block));
  for (Entry& entry : entries) {
    absl::string_view bytes = entry.second;
    BlockRef ref{.last_key = std::move(entry.first)};
    if (!ParseHandle(&bytes, &ref.handle)) return Corrupt("bad block handle in the index");
    blocks_.push_back(std::move(ref));
  }
  return absl::OkStatus();
}

bool Table::ParseHandle(absl::string_view* bytes, Handle* handle) const {
  if (!TakeVarint(bytes, &handle->offset) || !TakeVarint(bytes, &handle->size)) return false;
  return handle->offset <= size_ && handle->size <= size_ - handle->offset &&
         kTrailerSize <= size_ - handle->offset - handle->size;
}

absl::StatusOr<std::string> Table::ReadBlock(const Handle& handle) const {
  if (handle.size > kMaxBlockSize) return Corrupt("a block is too large");
  std::string bytes(handle.size + kTrailerSize, '\0');
  ASSIGN_OR_RETURN(const absl::string_view read, file_->Read(handle.offset, bytes.size(), bytes.data()));
  if (read.size() != bytes.size()) return Corrupt("truncated block read");
  if (read.data() != bytes.data()) std::memcpy(bytes.data(), read.data(), read.size());
  const char kind = bytes[handle.size];
  if (UnmaskCrc(Load32(bytes.data() + handle.size + 1)) != Crc32c(bytes.data(), handle.size + 1)) {
    return Corrupt("block checksum mismatch");
  }
  bytes.resize(handle.size);
  if (kind == kUncompressed) return bytes;
  size_t size = 0;
  std::string plain;
  if (kind != kSnappy || !snappy::GetUncompressedLength(bytes.data(), bytes.size(), &size) ||
      size / kMaxSnappyRatio > bytes.size() || !snappy::Uncompress(bytes.data(), bytes.size(), &plain)) {
    return Corrupt("bad compressed block");
  }
  return plain;
}

absl::StatusOr<std::vector<Table::Entry>> Table::ParseBlock(absl::string_view block) const {
  if (block.size() < sizeof(uint32_t)) return Corrupt("a block is too short");
  const uint64_t restarts = Load32(block.data() + block.size() - sizeof(uint32_t));
  const uint64_t tail = (restarts + 1) * sizeof(uint32_t);
  if (tail > block.size()) return Corrupt("a block has a bad number of restarts");
  block.remove_suffix(tail);
  // Keys share prefixes: a few bytes could stand for any number of long ones.
  // Writers begin a whole key every 16 entries.
  size_t room = kMaxKeyRatio * block.size() + kMaxBlockSlack;
  std::vector<Entry> entries;
  while (!block.empty()) {
    uint64_t shared, unshared, value_size;
    if (!TakeVarint(&block, &shared) || !TakeVarint(&block, &unshared) || !TakeVarint(&block, &value_size) ||
        unshared > block.size() || value_size > block.size() - unshared) {
      return Corrupt("bad entry in block");
    }
    const absl::string_view previous = entries.empty() ? absl::string_view() : entries.back().first;
    if (shared > previous.size()) return Corrupt("bad entry in block");
    if (shared + unshared > room) return Corrupt("the keys of a block take far more than the block");
    room -= shared + unshared;
    Entry entry(absl::StrCat(previous.substr(0, shared), block.substr(0, unshared)),
                block.substr(unshared, value_size));
    if (!entries.empty() && entry.first <= previous) return Corrupt("keys are not in order");
    entries.push_back(std::move(entry));
    block.remove_prefix(unshared + value_size);
  }
  return entries;
}

absl::StatusOr<std::string> Table::Find(absl::string_view key) const {
  const auto block = std::lower_bound(blocks_.begin(), blocks_.end(), key,
                                      [](const BlockRef& ref, absl::string_view k) { return ref.last_key < k; });
  if (block == blocks_.end()) return NotFound("no key ", key, " in ", path_);
  ASSIGN_OR_RETURN(const std::string bytes, ReadBlock(block->handle));
  ASSIGN_OR_RETURN(std::vector<Entry> entries, ParseBlock(bytes));
  const auto entry = std::lower_bound(entries.begin(), entries.end(), key,
                                      [](const Entry& e, absl::string_view k) { return e.first < k; });
  if (entry == entries.end() || entry->first != key) return NotFound("no key ", key, " in ", path_);
  return std::move(entry->second);
}

absl::StatusOr<std::vector<Table::Entry>> Table::ReadAll() const {
  std::vector<Entry> all;
  for (const BlockRef& ref : blocks_) {
    ASSIGN_OR_RETURN(const std::string bytes, ReadBlock(ref.handle));
    ASSIGN_OR_RETURN(std::vector<Entry> entries, ParseBlock(bytes));
    if (!all.empty() && !entries.empty() && entries.front().first <= all.back().first) {
      return Corrupt("keys are not in order");
    }
    std::move(entries.begin(), entries.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace thalweg
