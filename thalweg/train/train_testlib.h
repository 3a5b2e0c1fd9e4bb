// What tests of sessions and checkpoints share.
#pragma once

#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/logging.h"

namespace thalweg {

// A test with a folder of its own, which is deleted after it.
class FolderTest : public testing::Test {
 protected:
  FolderTest() : folder_(testing::TempDir() + "thalweg_XXXXXX") { CHECK(mkdtemp(folder_.data()) != nullptr); }
  ~FolderTest() override { EXPECT_TRUE(PosixFileSystem().DeleteRecursively(folder_).ok()); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  // Names of files, sorted.
  std::vector<std::string> Files(const std::string& folder = "") const {
    return *PosixFileSystem().ListDirectory(folder.empty() ? folder_ : folder);
  }

  std::string folder_;
};

// No file of this process gets larger than `bytes`: to the writer it is a disk
// that is full. Ends with the object.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    CHECK(getrlimit(RLIMIT_FSIZE, &before_) == 0);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FileSizeLimit() { CHECK(setrlimit(RLIMIT_FSIZE, &before_) == 0); }

 private:
  rlimit before_;
};

}  // namespace thalweg
