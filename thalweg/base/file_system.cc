// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "thalweg/base/faults/fail_point.h"
#include "thalweg/base/file_path.h"
#include "thalweg/base/machine_memory.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

constexpr size_t kBufferBytes = 64 << 10;
constexpr size_t kReadAtOnce = size_t{1} << 30;  // read(2) takes less than 2 GB
// A large file goes to the disk in pieces of this size while the next ones are written, not all of it in Sync().
constexpr int64_t kWriteBackBytes = int64_t{8} << 20;

// The file system takes about 0.2 s to free the blocks of a file of 1 GB.
constexpr int64_t kLargeFile = int64_t{64} << 20;

bool IsLargeFile(const std::string& path) {
  struct stat file {};
  return lstat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode) && file.st_size >= kLargeFile;
}

// Closes the file on a thread of its own. If the process ends first, the system closes it.
void CloseInBackground(int fd) {
  try {
    std::thread([fd] { close(fd); }).detach();
  } catch (const std::system_error&) {  // no more threads
    close(fd);
  }
}

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~PosixWritableFile() override { Close().IgnoreError(); }

  absl::Status Append(absl::string_view data) override {
    if (buffer_.size() + data.size() > kBufferBytes) RETURN_IF_ERROR(Flush());
    if (data.size() >= kBufferBytes) return Write(data);
    buffer_.append(data.data(), data.size());
    return absl::OkStatus();
  }

  absl::Status Flush() override {
    absl::Status status = Write(buffer_);
    buffer_.clear();
    return status;
  }

  absl::Status Sync() override {
    RETURN_IF_ERROR(Flush());
    if (fdatasync(fd_) != 0) return failure_ = FileError("sync", path_, errno);
    return absl::OkStatus();
  }

  absl::Status Close() override {
    if (fd_ < 0) return absl::OkStatus();
    absl::Status status = Flush();
    if (close(fd_) != 0 && status.ok()) status = FileError("close", path_, errno);
    fd_ = -1;
    return status;
  }

 private:
  absl::Status Write(absl::string_view data) {
    if (fd_ < 0) return FailedPrecondition("write ", path_, ": the file is closed");
    if (!failure_.ok()) return failure_;
    if (absl::Status fault = FailPoint("disk.write"); !fault.ok()) {
      return failure_ = Prepend(fault, absl::StrCat("write ", path_, ": "));
    }
    while (!data.empty()) {
      const ssize_t written = write(fd_, data.data(), std::min(data.size(), kReadAtOnce));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return failure_ = FileError("write", path_, errno);
      data.remove_prefix(written);
      unsent_ += written;
    }
    if (unsent_ >= kWriteBackBytes) {
      sync_file_range(fd_, 0, 0, SYNC_FILE_RANGE_WRITE);  // only begins: Sync() reports errors
      unsent_ = 0;
    }
    return absl::OkStatus();
  }

  const std::string path_;
  int fd_;  // -1 once closed
  std::string buffer_;
  int64_t unsent_ = 0;    // bytes since the system was asked to write back
  absl::Status failure_;  // the first one: the file has a hole from there on
};

class PosixRandomAccessFile final : public RandomAccessFile {
 public:
  PosixRandomAccessFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~PosixRandomAccessFile() override { close(fd_); }

  absl::StatusOr<absl::string_view> Read(uint64_t offset, size_t n, char* scratch) const override {
    size_t filled = 0;
    while (filled < n) {
      const ssize_t got = pread(fd_, scratch + filled, std::min(n - filled, kReadAtOnce), offset + filled);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return FileError("read", path_, errno);
      if (got == 0) break;
      filled += got;
    }
    return absl::string_view(scratch, filled);
  }

  absl::StatusOr<uint64_t> Size() const override {
    struct stat info;
    if (fstat(fd_, &info) != 0) return FileError("stat", path_, errno);
    return info.st_size;
  }

 private:
  const std::string path_;
  const int fd_;
};

class MachineFileSystem final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> NewWritableFile(const std::string& name, WriteMode mode) override {
    ASSIGN_OR_RETURN(const std::string path, LocalPath("open", name));
    const int how = mode == WriteMode::kAppend ? O_APPEND : O_TRUNC;
    // A pipe that nobody reads is an error, not a wait.
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | how, 0666);
    if (fd < 0) return FileError("open", path, errno);
    fcntl(fd, F_SETFL, how & O_APPEND);
    return std::make_unique<PosixWritableFile>(path, fd);
  }

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> NewRandomAccessFile(const std::string& name) override {
    ASSIGN_OR_RETURN(const std::string path, LocalPath("open", name));
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return FileError("open", path, errno);
    auto file = std::make_unique<PosixRandomAccessFile>(path, fd);
    struct stat info;
    if (fstat(fd, &info) != 0) return FileError("stat", path, errno);
    if (S_ISDIR(info.st_mode)) return FileError("open", path, EISDIR);
    // A device may have no end, and a pipe makes its readers wait.
    if (!S_ISREG(info.st_mode)) return FailedPrecondition("open ", path, ": it is not a regular file");
    return file;
  }

  absl::Status Rename(const std::string& old_name, const std::string& new_name) override {
    ASSIGN_OR_RETURN(const std::string from, LocalPath("rename", old_name));
    ASSIGN_OR_RETURN(const std::string to, LocalPath("rename to", new_name));
    if (rename(from.c_str(), to.c_str()) != 0) return FileError(absl::StrCat("rename ", from, " to"), to, errno);
    return absl::OkStatus();
  }

  absl::Status DeleteFile(const std::string& name) override {
    ASSIGN_OR_RETURN(const std::string path, LocalPath("delete", name));
    // A file that is open keeps its blocks until it is closed.
    const int fd = IsLargeFile(path) ? open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    const int error = unlink(path.c_str()) == 0 ? 0 : errno;
    if (fd >= 0) CloseInBackground(fd);
    return error == 0 ? absl::OkStatus() : FileError("delete", path, error);
  }

  absl::Status DeleteRecursively(const std::string& name) override {
    ASSIGN_OR_RETURN(const std::string path, LocalPath("delete", name));
    std::error_code error;
    const auto deleted = std::filesystem::remove_all(path, error);
    if (error) return FileError("delete", path, error.value());
    if (deleted == 0) return FileError("delete", path, ENOENT);
    return absl::OkStatus();
  }

  absl::Status FileExists(const std::string& name) override {
    ASSIGN_OR_RETURN(const std::string path, LocalPath("find", name));
    if (access(path.c_str(), F_OK) != 0) return FileError("find", path, errno);
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> FileSize(const std::string& name) override {
    ASSIGN_OR_RETURN(const std::string path, LocalPath("size of", name));
    struct stat info;
    if (stat(path.c_str(), &info) != 0) return FileError("stat", path, errno);
    if (S_ISDIR(info.st_mode)) return FileError("size of", path, EISDIR);
    return info.st_size;
  }

  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& name) override {
    ASSIGN_OR_RETURN(const std::string path, LocalPath("list", name));
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), closedir);
    if (directory == nullptr) return FileError("list", path, errno);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = readdir(directory.get())) {
      const absl::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) return FileError("list", path, errno);
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::Status CreateDirectories(const std::string& name) override {
    ASSIGN_OR_RETURN(const std::string path, LocalPath("create directory", name));
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) return FileError("create directory", path, error.value());
    return absl::OkStatus();
  }

  absl::Status SyncDirectory(const std::string& name) override {
    ASSIGN_OR_RETURN(const std::string path, LocalPath("sync", name));
    const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return FileError("open", path, errno);
    const int error = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    if (error != 0) return FileError("sync", path, error);
    return absl::OkStatus();
  }
};

}  // namespace

absl::Status FileError(absl::string_view operation, absl::string_view path, int error) {
  // abseil maps EFBIG to OUT_OF_RANGE, which means the end of data here.
  const absl::StatusCode code = error == EFBIG ? absl::StatusCode::kResourceExhausted : absl::ErrnoToStatusCode(error);
  return absl::Status(code, absl::StrCat(operation, " ", path, ": ", std::generic_category().message(error)));
}

absl::StatusOr<std::string> FileSystem::ReadFileToString(const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<RandomAccessFile> file, NewRandomAccessFile(path));
  ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  if (size > MachineMemoryBytes()) {
    return ResourceExhausted("read ", path, ": its ", size, " bytes are more than this machine's memory");
  }
  // The size is a guess: it is 0 for files of /proc, and a file may grow.
  std::string contents;
  size_t filled = 0;
  for (size_t room = size + 1;; room = std::max<size_t>(room, 4096)) {
    contents.resize(filled + room);
    ASSIGN_OR_RETURN(const absl::string_view got, file->Read(filled, room, contents.data() + filled));
    filled += got.size();
    if (got.size() < room) break;
  }
  contents.resize(filled);
  return contents;
}

absl::Status FileSystem::WriteStringToFile(const std::string& path, absl::string_view contents) {
  ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, NewWritableFile(path));
  RETURN_IF_ERROR(file->Append(contents));
  return file->Close();
}

FileSystem& PosixFileSystem() {
  static MachineFileSystem file_system;
  return file_system;
}

}  // namespace thalweg
