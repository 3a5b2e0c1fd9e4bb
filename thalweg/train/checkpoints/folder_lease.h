// SPDX-License-Identifier: Apache-2.0
// Ensures that only one chief at a time writes checkpoints to a folder.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace thalweg {

// Holds a lock on a file in the folder. The lock ends with the process, however it ends. It
// also works on network file systems that support locks. Movable.
class FolderLease {
 public:
  // Creates the folder if needed. FAILED_PRECONDITION, naming the holder, if another chief has
  // the lock. On a file system without locks, logs a warning and excludes nobody.
  static absl::StatusOr<FolderLease> Take(const std::string& folder);
  FolderLease(FolderLease&& other) noexcept;
  FolderLease& operator=(FolderLease&& other) noexcept;
  ~FolderLease() { Release(); }

  void Release();

 private:
  FolderLease(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_ = -1;  // -1: the lock is not held
};

}  // namespace thalweg
