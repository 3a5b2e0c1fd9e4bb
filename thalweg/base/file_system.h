// SPDX-License-Identifier: Apache-2.0
// An interface to files, so that tests can simulate full disks and crashes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace thalweg {

// A file that is written sequentially. Writes are buffered: the operating system has them after Flush(),
// and they survive a crash of the machine after Sync(). Not thread-safe. The destructor closes the file
// but cannot report an error; call Close() to know that everything was written. After a failure, every
// later call fails with the same error.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  [[nodiscard]] virtual absl::Status Append(absl::string_view data) = 0;  // adds bytes at the end
  [[nodiscard]] virtual absl::Status Flush() = 0;  // passes buffered bytes to the operating system
  [[nodiscard]] virtual absl::Status Sync() = 0;   // flushes and waits until the bytes are on disk
  // Flushes and closes. A second Close() returns OK and has no effect.
  [[nodiscard]] virtual absl::Status Close() = 0;
};

// A file for random reads. Thread-safe.
class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;

  // Reads bytes [offset, offset + n); fewer only at the end of the file. The result points into
  // `scratch`, which has room for n bytes.
  virtual absl::StatusOr<absl::string_view> Read(uint64_t offset, size_t n, char* scratch) const = 0;

  // The size of the file in bytes.
  virtual absl::StatusOr<uint64_t> Size() const = 0;
};

// How to treat the contents of a file that is opened for writing.
enum class WriteMode {
  kTruncate,  // they are dropped
  kAppend,    // new bytes go behind them
};

// Thread-safe. Paths may begin with file://; other schemes are UNIMPLEMENTED (see base/file_path.h). Only
// regular files can be read. Errors contain the operation, the path and the system's message. Their code is
// NotFound, AlreadyExists, PermissionDenied, ResourceExhausted (disk full), FailedPrecondition (a directory
// instead of a file, or vice versa), ...
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Creates the file if it does not exist.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> NewWritableFile(const std::string& path,
                                                                        WriteMode mode = WriteMode::kTruncate) = 0;
  // Opens an existing file for reading.
  virtual absl::StatusOr<std::unique_ptr<RandomAccessFile>> NewRandomAccessFile(const std::string& path) = 0;

  // Replaces `to` by `from` atomically. Survives a crash after SyncDirectory() of the folder.
  [[nodiscard]] virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // Deletes a file. Its name is gone when the call returns; the space of a large file is free shortly afterwards.
  [[nodiscard]] virtual absl::Status DeleteFile(const std::string& path) = 0;
  // Deletes a folder with its contents, or a file. Symbolic links are not followed.
  [[nodiscard]] virtual absl::Status DeleteRecursively(const std::string& path) = 0;

  // OK if the file or folder exists, NotFound otherwise.
  [[nodiscard]] virtual absl::Status FileExists(const std::string& path) = 0;
  // The size of a file in bytes.
  virtual absl::StatusOr<uint64_t> FileSize(const std::string& path) = 0;

  // Names (without the folder), sorted, without "." and "..".
  virtual absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) = 0;
  // Creates a folder and its parents. OK if it exists.
  [[nodiscard]] virtual absl::Status CreateDirectories(const std::string& path) = 0;
  // Makes the creations, renames and deletions in this folder survive a crash.
  [[nodiscard]] virtual absl::Status SyncDirectory(const std::string& path) = 0;

  // The contents of a file.
  absl::StatusOr<std::string> ReadFileToString(const std::string& path);
  // Replaces the contents of a file. Neither atomic nor synced: see ReplaceFile() in train/checkpoints.
  [[nodiscard]] absl::Status WriteStringToFile(const std::string& path, absl::string_view contents);
};

// The local file system. Stateless.
FileSystem& PosixFileSystem();

// "open /data/x: No such file or directory", with the code for `error` (an errno).
absl::Status FileError(absl::string_view operation, absl::string_view path, int error);

}  // namespace thalweg
