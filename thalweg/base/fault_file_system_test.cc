// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "thalweg/base/fault_file_system_testlib.h"
#include "thalweg/base/folder_testlib.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

class FaultFileSystemTest : public FolderTest {
 protected:
  // The contents, or "-" if there is no such file.
  std::string Read(const std::string& name) {
    const auto contents = disk_.ReadFileToString(Path(name));
    return contents.ok() ? *contents : "-";
  }

  // A file that survives whatever comes.
  void WriteDurably(const std::string& name, const std::string& contents) {
    auto file = *disk_.NewWritableFile(Path(name), WriteMode::kTruncate);
    ASSERT_TRUE(file->Append(contents).ok());
    ASSERT_TRUE(file->Sync().ok());
    ASSERT_TRUE(file->Close().ok());
    ASSERT_TRUE(disk_.SyncDirectory(folder_).ok());
  }

  FaultFileSystem disk_{PosixFileSystem()};
};

TEST_F(FaultFileSystemTest, PassesThroughWhenNothingIsWrong) {
  ASSERT_TRUE(disk_.WriteStringToFile(Path("f"), "contents").ok());
  EXPECT_EQ(Read("f"), "contents");
  EXPECT_EQ(*disk_.FileSize(Path("f")), 8);
  EXPECT_EQ(*disk_.ListDirectory(folder_), std::vector<std::string>{"f"});
  EXPECT_EQ(disk_.DeleteFile(Path("none")).code(), absl::StatusCode::kNotFound);
}

TEST_F(FaultFileSystemTest, TheNthWriteFindsTheDiskFull) {
  auto file = *disk_.NewWritableFile(Path("f"), WriteMode::kTruncate);
  disk_.FailWritesFrom(3);
  EXPECT_TRUE(file->Append("a").ok());
  EXPECT_TRUE(file->Append("b").ok());
  EXPECT_EQ(file->Append("c").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(file->Append("d").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(disk_.writes(), 4);
  disk_.ClearFaults();
  EXPECT_TRUE(file->Append("e").ok());
  EXPECT_TRUE(file->Close().ok());
  EXPECT_EQ(Read("f"), "abe");
}

TEST_F(FaultFileSystemTest, ACrashDropsBytesThatWereNotSynced) {
  WriteDurably("f", "old ");
  auto file = *disk_.NewWritableFile(Path("f"), WriteMode::kAppend);
  ASSERT_TRUE(file->Append("synced ").ok());
  ASSERT_TRUE(file->Sync().ok());
  ASSERT_TRUE(file->Append("flushed").ok());
  ASSERT_TRUE(file->Flush().ok());
  EXPECT_EQ(Read("f"), "old synced flushed");
  ASSERT_TRUE(disk_.Crash().ok());
  EXPECT_EQ(Read("f"), "old synced ");
  EXPECT_EQ(file->Append("late").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(file->Sync().code(), absl::StatusCode::kUnavailable);
  file.reset();
  EXPECT_EQ(Read("f"), "old synced ");
}

TEST_F(FaultFileSystemTest, ACrashDropsNamesThatWereNotSynced) {
  auto file = *disk_.NewWritableFile(Path("new"), WriteMode::kTruncate);
  ASSERT_TRUE(file->Append("synced").ok());
  ASSERT_TRUE(file->Sync().ok());
  WriteDurably("kept", "kept");
  ASSERT_TRUE(disk_.Crash().ok());
  EXPECT_EQ(Read("new"), "synced");  // SyncDirectory() came after its creation

  ASSERT_TRUE(disk_.WriteStringToFile(Path("newer"), "x").ok());
  ASSERT_TRUE(disk_.DeleteFile(Path("kept")).ok());
  EXPECT_EQ(Read("kept"), "-");
  ASSERT_TRUE(disk_.Crash().ok());
  EXPECT_EQ(Read("newer"), "-");
  EXPECT_EQ(Read("kept"), "kept");
}

TEST_F(FaultFileSystemTest, ARenameIsDurableWithItsFolder) {
  WriteDurably("current", "old");
  for (const bool sync_folder : {false, true}) {
    auto file = *disk_.NewWritableFile(Path("temporary"), WriteMode::kTruncate);
    ASSERT_TRUE(file->Append("new").ok());
    ASSERT_TRUE(file->Sync().ok());
    ASSERT_TRUE(file->Close().ok());
    ASSERT_TRUE(disk_.Rename(Path("temporary"), Path("current")).ok());
    if (sync_folder) {
      ASSERT_TRUE(disk_.SyncDirectory(folder_ + "/").ok());
    }
    EXPECT_EQ(Read("current"), "new");
    ASSERT_TRUE(disk_.Crash().ok());
    EXPECT_EQ(Read("current"), sync_folder ? "new" : "old");
    EXPECT_EQ(Read("temporary"), "-");
  }
}

TEST_F(FaultFileSystemTest, ARenameOfUnsyncedBytesIsATrap) {
  WriteDurably("current", "old");
  ASSERT_TRUE(disk_.WriteStringToFile(Path("temporary"), "new").ok());
  ASSERT_TRUE(disk_.Rename(Path("temporary"), Path("current")).ok());
  ASSERT_TRUE(disk_.SyncDirectory(folder_).ok());
  ASSERT_TRUE(disk_.Crash().ok());
  EXPECT_EQ(Read("current"), "");  // the name is there, the bytes are not
}

}  // namespace
}  // namespace thalweg
