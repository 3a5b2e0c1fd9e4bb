// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/checkpoints/folder_lease.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/logging.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

constexpr char kFile[] = ".chief";

std::string Owner() {
  char host[HOST_NAME_MAX + 1] = {};
  gethostname(host, HOST_NAME_MAX);
  return absl::StrCat("process ", getpid(), " on ", host);
}

std::string ReadOwner(int fd) {
  char text[256] = {};
  const ssize_t size = pread(fd, text, sizeof(text) - 1, 0);
  return size > 0 ? std::string(text, static_cast<size_t>(size)) : "another process";
}

// The holder deletes the file when it releases the lock. A lock on a deleted file excludes
// nobody.
bool IsStillThere(const std::string& path, int fd) {
  struct stat there {
  }, held{};
  return stat(path.c_str(), &there) == 0 && fstat(fd, &held) == 0 && there.st_ino == held.st_ino &&
         there.st_dev == held.st_dev;
}

}  // namespace

FolderLease::FolderLease(FolderLease&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

FolderLease& FolderLease::operator=(FolderLease&& other) noexcept {
  Release();
  path_ = std::move(other.path_);
  fd_ = std::exchange(other.fd_, -1);
  return *this;
}

absl::StatusOr<FolderLease> FolderLease::Take(const std::string& folder) {
  RETURN_IF_ERROR(PosixFileSystem().CreateDirectories(folder));
  const std::string path = absl::StrCat(folder, "/", kFile);
  while (true) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return FileError("open", path, errno);
    FolderLease lease(path, fd);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      const std::string owner = ReadOwner(fd);
      close(std::exchange(lease.fd_, -1));
      if (error == EINTR) continue;
      if (error == EWOULDBLOCK) {
        return FailedPrecondition("the checkpoints in ", folder, " are written by ", owner,
                                  ": two chiefs cannot share a folder");
      }
      LOG(WARNING) << folder << " cannot be locked, so a second chief would not be detected: " << strerror(error);
      return lease;
    }
    if (!IsStillThere(path, fd)) {
      close(std::exchange(lease.fd_, -1));
      continue;
    }
    const std::string owner = Owner();
    if (ftruncate(fd, 0) != 0 || pwrite(fd, owner.data(), owner.size(), 0) < 0) {
      LOG(WARNING) << "Could not record in " << path << " which process holds it: " << strerror(errno);
    }
    return lease;
  }
}

void FolderLease::Release() {
  if (fd_ < 0) return;
  unlink(path_.c_str());  // before the unlock: the next holder checks that the file exists
  close(std::exchange(fd_, -1));
}

}  // namespace thalweg
