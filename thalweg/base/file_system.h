// Files behind an interface, so that a test can fill the disk or pull the plug.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace thalweg {

// A file that is written from front to back. Buffered: bytes are with the
// operating system after Flush(), and survive a crash of the machine after
// Sync(). Not thread-safe. The destructor closes but cannot report an error:
// call Close() to know that everything was written. After a failure every later
// call fails with the same error.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  [[nodiscard]] virtual absl::Status Append(absl::string_view data) = 0;
  [[nodiscard]] virtual absl::Status Flush() = 0;
  [[nodiscard]] virtual absl::Status Sync() = 0;
  // Flushes. A second Close() is OK and does nothing.
  [[nodiscard]] virtual absl::Status Close() = 0;
};

// A file that is read anywhere. Thread-safe.
class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;

  // Bytes [offset, offset + n), fewer only where the file ends. The result
  // points into `scratch`, which has room for n bytes.
  virtual absl::StatusOr<absl::string_view> Read(uint64_t offset, size_t n, char* scratch) const = 0;

  virtual absl::StatusOr<uint64_t> Size() const = 0;
};

enum class WriteMode { kTruncate, kAppend };

// Thread-safe. Paths may begin with file://; other schemes are UNIMPLEMENTED (see
// base/file_path.h). Only regular files are read. Errors carry the operation, the path and the system's text, with
// the code that fits: NotFound, AlreadyExists, PermissionDenied,
// ResourceExhausted (disk full), FailedPrecondition (a directory where a file
// is wanted, or the other way round), ...
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Creates the file where it does not exist.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> NewWritableFile(const std::string& path,
                                                                        WriteMode mode = WriteMode::kTruncate) = 0;
  virtual absl::StatusOr<std::unique_ptr<RandomAccessFile>> NewRandomAccessFile(const std::string& path) = 0;

  // Puts `from` in the place of `to`, in one step that others see whole. It
  // survives a crash after SyncDirectory() of the folder.
  [[nodiscard]] virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  [[nodiscard]] virtual absl::Status DeleteFile(const std::string& path) = 0;
  // A folder with all that is in it, or a file. Symbolic links are not followed.
  [[nodiscard]] virtual absl::Status DeleteRecursively(const std::string& path) = 0;

  // OK if there is a file or folder, NotFound if not.
  [[nodiscard]] virtual absl::Status FileExists(const std::string& path) = 0;
  virtual absl::StatusOr<uint64_t> FileSize(const std::string& path) = 0;

  // Names (without the folder), sorted, without "." and "..".
  virtual absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) = 0;
  // With its parents; OK if it exists.
  [[nodiscard]] virtual absl::Status CreateDirectories(const std::string& path) = 0;
  // Makes the creations, renames and deletions in this folder survive a crash.
  [[nodiscard]] virtual absl::Status SyncDirectory(const std::string& path) = 0;

  // In terms of the above. Writing replaces the file, and is neither atomic nor synced.
  absl::StatusOr<std::string> ReadFileToString(const std::string& path);
  [[nodiscard]] absl::Status WriteStringToFile(const std::string& path, absl::string_view contents);
};

// The machine's files. It has no state.
FileSystem& PosixFileSystem();

// "open /data/x: No such file or directory", with the code for `error` (an errno).
absl::Status FileError(absl::string_view operation, absl::string_view path, int error);

}  // namespace thalweg
