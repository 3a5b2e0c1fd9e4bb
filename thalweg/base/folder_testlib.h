// SPDX-License-Identifier: Apache-2.0
// Temporary folders for tests, deleted with their contents.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/logging.h"

namespace thalweg {

class TempFolder {
 public:
  TempFolder() : path_(testing::TempDir() + "thalweg_XXXXXX") { CHECK(mkdtemp(path_.data()) != nullptr); }
  ~TempFolder() { EXPECT_TRUE(PosixFileSystem().DeleteRecursively(path_).ok()); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A test fixture with a temporary folder.
class FolderTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  // Names of files, sorted.
  std::vector<std::string> Files(const std::string& folder = "") const {
    return *PosixFileSystem().ListDirectory(folder.empty() ? folder_ : folder);
  }
  // Returns the path.
  std::string Write(const std::string& name, const std::string& contents) const {
    EXPECT_TRUE(PosixFileSystem().WriteStringToFile(Path(name), contents).ok());
    return Path(name);
  }

 private:
  const TempFolder temp_;

 protected:
  const std::string& folder_ = temp_.path();
};

}  // namespace thalweg
