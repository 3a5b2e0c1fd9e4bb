// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/glob.h"

#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/folder_testlib.h"

namespace thalweg {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(GlobTest, Matches) {
  const TempFolder folder;
  const std::string& root = folder.path();
  FileSystem& files = PosixFileSystem();
  for (const char* name : {"/a/x-00000-of-00002", "/a/x-00001-of-00002", "/b/x-1", "/b/y[1]"}) {
    const std::string path = root + name;
    ASSERT_TRUE(files.CreateDirectories(path.substr(0, path.rfind('/'))).ok());
    ASSERT_TRUE(files.WriteStringToFile(path, "").ok());
  }
  EXPECT_THAT(*MatchingPaths(files, root + "/a/x-?????"
                                           "-of-00002"),
              ElementsAre(root + "/a/x-00000-of-00002", root + "/a/x-00001-of-00002"));
  EXPECT_THAT(*MatchingPaths(files, root + "/*/x-1"), ElementsAre(root + "/b/x-1"));
  EXPECT_THAT(*MatchingPaths(files, root + "/b/y\\[1\\]"), ElementsAre(root + "/b/y[1]"));
  EXPECT_THAT(*MatchingPaths(files, root + "/b/x-1"), ElementsAre(root + "/b/x-1"));
  EXPECT_THAT(*MatchingPaths(files, root + "/b/x-1/z"), IsEmpty());
  EXPECT_THAT(*MatchingPaths(files, root + "/c/*"), IsEmpty());
}

}  // namespace
}  // namespace thalweg
