// SPDX-License-Identifier: Apache-2.0
#include "fuzz_target.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "thalweg/base/status.h"

namespace thalweg::fuzz {
namespace {

class MemoryWriter : public WritableFile {
 public:
  explicit MemoryWriter(std::string* file) : file_(file) {}
  absl::Status Append(absl::string_view data) override {
    file_->append(data.data(), data.size());
    return absl::OkStatus();
  }
  absl::Status Flush() override { return absl::OkStatus(); }
  absl::Status Sync() override { return absl::OkStatus(); }
  absl::Status Close() override { return absl::OkStatus(); }

 private:
  std::string* const file_;
};

class MemoryReader : public RandomAccessFile {
 public:
  explicit MemoryReader(const std::string& file) : file_(file) {}
  absl::StatusOr<absl::string_view> Read(uint64_t offset, size_t n, char* scratch) const override {
    if (offset >= file_.size()) return absl::string_view();
    const size_t got = std::min<size_t>(n, file_.size() - offset);
    std::memcpy(scratch, file_.data() + offset, got);
    return absl::string_view(scratch, got);
  }
  absl::StatusOr<uint64_t> Size() const override { return file_.size(); }

 private:
  const std::string file_;
};

}  // namespace

std::string MakePart(absl::string_view bytes) {
  const size_t n = std::min<size_t>(bytes.size(), 0xffff);
  return absl::StrCat(std::string(1, static_cast<char>(n & 0xff)), std::string(1, static_cast<char>(n >> 8)),
                      bytes.substr(0, n));
}

absl::StatusOr<std::unique_ptr<WritableFile>> MemoryFileSystem::NewWritableFile(const std::string& path,
                                                                                WriteMode mode) {
  std::string& file = files[path];
  if (mode == WriteMode::kTruncate) file.clear();
  return std::make_unique<MemoryWriter>(&file);
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> MemoryFileSystem::NewRandomAccessFile(const std::string& path) {
  const auto it = files.find(path);
  if (it == files.end()) return NotFound(path);
  return std::make_unique<MemoryReader>(it->second);
}

absl::Status MemoryFileSystem::Rename(const std::string& from, const std::string& to) {
  const auto it = files.find(from);
  if (it == files.end()) return NotFound(from);
  files[to] = std::move(it->second);
  files.erase(it);
  return absl::OkStatus();
}

absl::Status MemoryFileSystem::DeleteFile(const std::string& path) {
  return files.erase(path) > 0 ? absl::OkStatus() : NotFound(path);
}

absl::Status MemoryFileSystem::DeleteRecursively(const std::string& path) {
  std::erase_if(files, [&](const auto& file) { return absl::StartsWith(file.first, path); });
  return absl::OkStatus();
}

absl::Status MemoryFileSystem::FileExists(const std::string& path) {
  return path == "." || files.contains(path) ? absl::OkStatus() : NotFound(path);
}

absl::StatusOr<uint64_t> MemoryFileSystem::FileSize(const std::string& path) {
  const auto it = files.find(path);
  if (it == files.end()) return NotFound(path);
  return it->second.size();
}

absl::StatusOr<std::vector<std::string>> MemoryFileSystem::ListDirectory(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& [name, contents] : files) {
    if (absl::StartsWith(name, absl::StrCat(path, "/"))) names.push_back(name.substr(path.size() + 1));
  }
  return names;
}

}  // namespace thalweg::fuzz
