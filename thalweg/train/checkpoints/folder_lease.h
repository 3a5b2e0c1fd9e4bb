// FolderLease: one chief at a time writes the checkpoints of a folder.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace thalweg {

// A lock on a file of the folder, which ends with the process that holds it,
// however that ends. It holds on network file systems that share locks. Movable.
class FolderLease {
 public:
  // Makes the folder if need be. FAILED_PRECONDITION, saying who, if another chief
  // has it. A file system without locks gives a lease that excludes nobody, and a
  // warning.
  static absl::StatusOr<FolderLease> Take(const std::string& folder);
  FolderLease(FolderLease&& other) noexcept;
  FolderLease& operator=(FolderLease&& other) noexcept;
  ~FolderLease() { Release(); }

  void Release();

 private:
  FolderLease(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_ = -1;  // -1: nothing is held
};

}  // namespace thalweg
