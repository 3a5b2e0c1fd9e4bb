// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/file_path.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/glob.h"

namespace thalweg {
namespace {

TEST(FilePath, Schemes) {
  EXPECT_EQ(SchemeOf("s3://bucket/x"), "s3");
  EXPECT_EQ(SchemeOf("hdfs://host:9000/x"), "hdfs");
  EXPECT_EQ(SchemeOf("file:///x"), "file");
  for (const char* path : {"", "/a/b", "a/b", "s3:/a", "://a", "1a://b", "a b://c", "./s3://a"}) {
    EXPECT_EQ(SchemeOf(path), "") << path;
  }
}

TEST(FilePath, OnThisMachine) {
  EXPECT_EQ(*LocalPath("open", "/a/b"), "/a/b");
  EXPECT_EQ(*LocalPath("open", "a/b"), "a/b");
  EXPECT_EQ(*LocalPath("open", "file:///a/b"), "/a/b");
  EXPECT_EQ(*LocalPath("open", "file://localhost/a/b"), "/a/b");
  EXPECT_EQ(*LocalPath("open", "file://"), "");
}

// Every operation of the file system refuses remote paths: a save to s3:// must not succeed in a local
// folder of that name.
TEST(FilePath, OtherFileSystemsAreRefusedEverywhere) {
  FileSystem& files = PosixFileSystem();
  for (const std::string scheme : {"s3", "hdfs", "gs", "S3", "FILE"}) {
    const std::string path = scheme + "://bucket/x";
    for (const absl::Status& status :
         {files.NewWritableFile(path).status(), files.NewRandomAccessFile(path).status(), files.Rename(path, "/tmp/x"),
          files.Rename("/tmp/x", path), files.DeleteFile(path), files.DeleteRecursively(path), files.FileExists(path),
          files.FileSize(path).status(), files.ListDirectory(path).status(), files.CreateDirectories(path),
          files.SyncDirectory(path), files.ReadFileToString(path).status(), files.WriteStringToFile(path, ""),
          MatchingPaths(files, path + "/*").status(), MatchingPaths(files, path).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
      EXPECT_TRUE(absl::StrContains(status.message(), "'" + scheme + "'")) << status;
    }
  }
}

}  // namespace
}  // namespace thalweg
