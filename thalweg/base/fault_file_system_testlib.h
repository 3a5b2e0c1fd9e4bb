// SPDX-License-Identifier: Apache-2.0
// A file system for tests that runs out of space, or loses data that was not synced.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/mutex.h"

namespace thalweg {

// Wraps another file system, which it borrows, and shares its files.
//
//   FaultFileSystem disk(PosixFileSystem());
//   disk.FailWritesFrom(3);       // the third Append() from now finds the disk full
//   disk.Crash();                 // discards everything that was not synced
//
// A crash loses as much as POSIX allows: a file keeps the bytes of its last Sync(),
// and creations, renames and deletions are undone unless SyncDirectory() of their
// folder followed. Folders survive, and cannot be renamed.
// Thread-safe; files follow the rules of WritableFile.
class FaultFileSystem final : public FileSystem {
 public:
  explicit FaultFileSystem(FileSystem& base) : base_(base) {}

  // The nth Append() from now (1 is the next), of any file, and all after it
  // fail with `error`, until ClearFaults().
  void FailWritesFrom(int64_t n, absl::Status error = absl::ResourceExhaustedError("No space left on device"));
  // The same for Rename(): leaves the files as if the process was killed before it.
  void FailRenamesFrom(int64_t n);
  void ClearFaults();
  // Append() calls so far, so that a test can fail each of them in turn.
  int64_t writes() const;

  // Simulates a crash and restart of the machine. Files that are open for writing fail
  // from now on.
  [[nodiscard]] absl::Status Crash();

  absl::StatusOr<std::unique_ptr<WritableFile>> NewWritableFile(const std::string& path, WriteMode mode) override;
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> NewRandomAccessFile(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status DeleteFile(const std::string& path) override;
  absl::Status DeleteRecursively(const std::string& path) override;
  absl::Status FileExists(const std::string& path) override;
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override;
  absl::Status CreateDirectories(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;

 private:
  class File;

  // A file independent of its current name, with the contents that survive a crash.
  struct Inode {
    std::string durable;
  };

  // A name change that a crash undoes: `path` referred to `before`.
  struct NameChange {
    std::string folder;
    std::string path;
    std::shared_ptr<Inode> before;  // nullptr: there was no such file
  };

  // The inode of `path`, nullptr if there is no such file. A file that this file
  // system sees for the first time counts as durable.
  absl::StatusOr<std::shared_ptr<Inode>> Find(const std::string& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteChange(const std::string& path, std::shared_ptr<Inode> before) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CountWrite();
  absl::Status CheckAlive(int64_t life) const;
  absl::Status MakeDurable(Inode& inode, int64_t life, const std::string& written);

  FileSystem& base_;

  mutable Mutex mu_;
  int64_t life_ ABSL_GUARDED_BY(mu_) = 0;  // crashes so far
  int64_t writes_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<int64_t> failing_write_ ABSL_GUARDED_BY(mu_);
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  int64_t renames_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<int64_t> failing_rename_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::shared_ptr<Inode>> inodes_ ABSL_GUARDED_BY(mu_);  // by path
  std::vector<NameChange> changes_ ABSL_GUARDED_BY(mu_);                       // not yet durable
};

}  // namespace thalweg
