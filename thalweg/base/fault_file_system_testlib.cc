// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/fault_file_system_testlib.h"

#include <utility>

#include "thalweg/base/status.h"

namespace thalweg {
namespace {

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string WithoutLastSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

// Remembers everything that was written, to know at Sync() what is durable.
class FaultFileSystem::File final : public WritableFile {
 public:
  File(FaultFileSystem& disk, std::shared_ptr<Inode> inode, int64_t life, std::string contents,
       std::unique_ptr<WritableFile> base)
      : disk_(disk), inode_(std::move(inode)), life_(life), contents_(std::move(contents)), base_(std::move(base)) {}

  absl::Status Append(absl::string_view data) override {
    RETURN_IF_ERROR(disk_.CheckAlive(life_));
    RETURN_IF_ERROR(disk_.CountWrite());
    contents_.append(data.data(), data.size());
    return base_->Append(data);
  }

  absl::Status Flush() override {
    RETURN_IF_ERROR(disk_.CheckAlive(life_));
    return base_->Flush();
  }

  absl::Status Sync() override {
    RETURN_IF_ERROR(disk_.CheckAlive(life_));
    RETURN_IF_ERROR(base_->Flush());
    return disk_.MakeDurable(*inode_, life_, contents_);
  }

  absl::Status Close() override {
    RETURN_IF_ERROR(disk_.CheckAlive(life_));
    return base_->Close();
  }

 private:
  FaultFileSystem& disk_;
  const std::shared_ptr<Inode> inode_;
  const int64_t life_;
  std::string contents_;
  const std::unique_ptr<WritableFile> base_;
};

void FaultFileSystem::FailWritesFrom(int64_t n, absl::Status error) {
  MutexLock lock(&mu_);
  failing_write_ = writes_ + n;
  failure_ = std::move(error);
}

void FaultFileSystem::FailRenamesFrom(int64_t n) {
  MutexLock lock(&mu_);
  failing_rename_ = renames_ + n;
}

void FaultFileSystem::ClearFaults() {
  MutexLock lock(&mu_);
  failing_write_.reset();
  failing_rename_.reset();
}

int64_t FaultFileSystem::writes() const {
  MutexLock lock(&mu_);
  return writes_;
}

absl::Status FaultFileSystem::CountWrite() {
  MutexLock lock(&mu_);
  ++writes_;
  return failing_write_ && writes_ >= *failing_write_ ? failure_ : absl::OkStatus();
}

absl::Status FaultFileSystem::CheckAlive(int64_t life) const {
  MutexLock lock(&mu_);
  return life == life_ ? absl::OkStatus() : Unavailable("the machine crashed while the file was open");
}

absl::Status FaultFileSystem::MakeDurable(Inode& inode, int64_t life, const std::string& written) {
  MutexLock lock(&mu_);
  if (life != life_) return Unavailable("the machine crashed while the file was open");
  inode.durable = written;
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<FaultFileSystem::Inode>> FaultFileSystem::Find(const std::string& path) {
  if (const auto it = inodes_.find(path); it != inodes_.end()) return it->second;
  absl::StatusOr<std::string> contents = base_.ReadFileToString(path);
  if (absl::IsNotFound(contents.status())) return nullptr;
  RETURN_IF_ERROR(contents.status());
  return inodes_[path] = std::make_shared<Inode>(Inode{*std::move(contents)});
}

void FaultFileSystem::NoteChange(const std::string& path, std::shared_ptr<Inode> before) {
  changes_.push_back({FolderOf(path), path, std::move(before)});
}

absl::Status FaultFileSystem::Crash() {
  MutexLock lock(&mu_);
  ++life_;
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) inodes_[change->path] = change->before;
  changes_.clear();
  for (const auto& [path, inode] : inodes_) {
    if (inode != nullptr) {
      RETURN_IF_ERROR(base_.WriteStringToFile(path, inode->durable));
    } else if (const absl::Status status = base_.DeleteFile(path); !absl::IsNotFound(status)) {
      RETURN_IF_ERROR(status);
    }
  }
  inodes_.clear();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<WritableFile>> FaultFileSystem::NewWritableFile(const std::string& path,
                                                                               WriteMode mode) {
  MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(std::shared_ptr<Inode> inode, Find(path));
  std::string contents;
  if (inode != nullptr && mode == WriteMode::kAppend) {
    ASSIGN_OR_RETURN(contents, base_.ReadFileToString(path));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, base_.NewWritableFile(path, mode));
  if (inode == nullptr) {
    inode = inodes_[path] = std::make_shared<Inode>();
    NoteChange(path, nullptr);
  } else if (mode == WriteMode::kTruncate) {
    inode->durable.clear();
  }
  return std::make_unique<File>(*this, std::move(inode), life_, std::move(contents), std::move(file));
}

absl::Status FaultFileSystem::Rename(const std::string& from, const std::string& to) {
  MutexLock lock(&mu_);
  if (++renames_; failing_rename_ && renames_ >= *failing_rename_) return Unavailable("rename ", from, ": too late");
  ASSIGN_OR_RETURN(std::shared_ptr<Inode> moved, Find(from));
  ASSIGN_OR_RETURN(std::shared_ptr<Inode> replaced, Find(to));
  RETURN_IF_ERROR(base_.Rename(from, to));
  NoteChange(to, std::move(replaced));
  NoteChange(from, moved);
  inodes_[from] = nullptr;
  inodes_[to] = std::move(moved);
  return absl::OkStatus();
}

absl::Status FaultFileSystem::DeleteFile(const std::string& path) {
  MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(std::shared_ptr<Inode> deleted, Find(path));
  RETURN_IF_ERROR(base_.DeleteFile(path));
  NoteChange(path, std::move(deleted));
  inodes_[path] = nullptr;
  return absl::OkStatus();
}

absl::Status FaultFileSystem::SyncDirectory(const std::string& path) {
  MutexLock lock(&mu_);
  std::erase_if(changes_, [&](const NameChange& change) { return change.folder == WithoutLastSlash(path); });
  return base_.FileExists(path);
}

// Folders, and what is deleted with them, are beyond the crash.
absl::Status FaultFileSystem::DeleteRecursively(const std::string& path) {
  MutexLock lock(&mu_);
  const std::string top = WithoutLastSlash(path);
  const auto inside = [&](const std::string& file) { return file == top || file.rfind(top + "/", 0) == 0; };
  std::erase_if(changes_, [&](const NameChange& change) { return inside(change.path); });
  std::erase_if(inodes_, [&](const auto& entry) { return inside(entry.first); });
  return base_.DeleteRecursively(path);
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> FaultFileSystem::NewRandomAccessFile(const std::string& path) {
  return base_.NewRandomAccessFile(path);
}
absl::Status FaultFileSystem::FileExists(const std::string& path) { return base_.FileExists(path); }
absl::StatusOr<uint64_t> FaultFileSystem::FileSize(const std::string& path) { return base_.FileSize(path); }
absl::StatusOr<std::vector<std::string>> FaultFileSystem::ListDirectory(const std::string& path) {
  return base_.ListDirectory(path);
}
absl::Status FaultFileSystem::CreateDirectories(const std::string& path) { return base_.CreateDirectories(path); }

}  // namespace thalweg
