// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/file_system.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

#include "gtest/gtest.h"
#include "thalweg/base/folder_testlib.h"
#include "thalweg/base/glob.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

class FileSystemTest : public FolderTest {
 protected:
  FileSystem& files_ = PosixFileSystem();
};

TEST_F(FileSystemTest, WritesAndReadsBack) {
  for (size_t n : {0, 1, 100, 65535, 65536, 65537, 1000000}) {
    std::string contents(n, 'x');
    for (size_t i = 0; i < n; ++i) contents[i] = static_cast<char>('a' + i % 23);
    ASSERT_TRUE(files_.WriteStringToFile(Path("f"), contents).ok());
    EXPECT_EQ(*files_.FileSize(Path("f")), n);
    EXPECT_EQ(*files_.ReadFileToString(Path("f")), contents);
  }
}

TEST_F(FileSystemTest, SmallAppendsKeepTheirOrder) {
  auto file = *files_.NewWritableFile(Path("f"));
  std::string expected;
  for (int i = 0; i < 30000; ++i) {
    const std::string piece = std::to_string(i) + (i == 20000 ? std::string(100000, '.') : "");
    ASSERT_TRUE(file->Append(piece).ok());
    expected += piece;
  }
  ASSERT_TRUE(file->Sync().ok());
  EXPECT_EQ(*files_.ReadFileToString(Path("f")), expected);
  EXPECT_TRUE(file->Close().ok());
  EXPECT_TRUE(file->Close().ok());
  EXPECT_EQ(file->Append("late").code(), absl::StatusCode::kOk);  // buffered
  EXPECT_EQ(file->Flush().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(FileSystemTest, TruncatesOrAppends) {
  ASSERT_TRUE(files_.WriteStringToFile(Path("f"), "first").ok());
  {
    auto file = *files_.NewWritableFile(Path("f"), WriteMode::kAppend);
    ASSERT_TRUE(file->Append(" second").ok());
  }
  EXPECT_EQ(*files_.ReadFileToString(Path("f")), "first second");
  ASSERT_TRUE(files_.WriteStringToFile(Path("f"), "third").ok());
  EXPECT_EQ(*files_.ReadFileToString(Path("f")), "third");
}

TEST_F(FileSystemTest, ReadsAnywhere) {
  ASSERT_TRUE(files_.WriteStringToFile(Path("f"), "0123456789").ok());
  auto file = *files_.NewRandomAccessFile(Path("f"));
  char scratch[20];
  EXPECT_EQ(*file->Size(), 10);
  EXPECT_EQ(*file->Read(3, 4, scratch), "3456");
  EXPECT_EQ(*file->Read(8, 20, scratch), "89");
  EXPECT_EQ(*file->Read(10, 5, scratch), "");
  EXPECT_EQ(*file->Read(1000, 5, scratch), "");
}

TEST_F(FileSystemTest, ReadsFilesWithoutASize) {
  EXPECT_EQ(*files_.FileSize("/proc/self/status"), 0);
  EXPECT_NE(files_.ReadFileToString("/proc/self/status")->find("Pid:"), std::string::npos);
}

TEST_F(FileSystemTest, RenamesAndDeletes) {
  ASSERT_TRUE(files_.WriteStringToFile(Path("a"), "new").ok());
  ASSERT_TRUE(files_.WriteStringToFile(Path("b"), "old").ok());
  ASSERT_TRUE(files_.Rename(Path("a"), Path("b")).ok());
  EXPECT_EQ(*files_.ReadFileToString(Path("b")), "new");
  EXPECT_EQ(files_.FileExists(Path("a")).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(files_.FileExists(Path("b")).ok());
  EXPECT_TRUE(files_.DeleteFile(Path("b")).ok());
  EXPECT_EQ(files_.DeleteFile(Path("b")).code(), absl::StatusCode::kNotFound);
}

// Their blocks are freed by a thread of their own, which leaves no descriptor behind.
TEST_F(FileSystemTest, DeletesLargeFiles) {
  ASSERT_TRUE(files_.WriteStringToFile(Path("large"), "").ok());
  ASSERT_EQ(truncate(Path("large").c_str(), int64_t{1} << 30), 0);
  ASSERT_TRUE(files_.DeleteFile(Path("large")).ok());
  EXPECT_EQ(files_.FileExists(Path("large")).code(), absl::StatusCode::kNotFound);
  const auto is_open = [&] {
    for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;  // the thread closes it meanwhile
      if (std::filesystem::read_symlink(fd.path(), gone).string() == Path("large") + " (deleted)") return true;
    }
    return false;
  };
  while (is_open()) std::this_thread::yield();
}

TEST_F(FileSystemTest, Folders) {
  ASSERT_TRUE(files_.CreateDirectories(Path("x/y/z")).ok());
  ASSERT_TRUE(files_.CreateDirectories(Path("x/y/z")).ok());
  ASSERT_TRUE(files_.WriteStringToFile(Path("x/b"), "").ok());
  ASSERT_TRUE(files_.WriteStringToFile(Path("x/a"), "").ok());
  EXPECT_EQ(*files_.ListDirectory(Path("x")), (std::vector<std::string>{"a", "b", "y"}));
  EXPECT_TRUE(files_.SyncDirectory(Path("x")).ok());
  EXPECT_TRUE(files_.DeleteRecursively(Path("x")).ok());
  EXPECT_EQ(files_.FileExists(Path("x")).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(files_.DeleteRecursively(Path("x")).code(), absl::StatusCode::kNotFound);
}

TEST_F(FileSystemTest, DeletingAFolderLeavesWhatItsLinksPointTo) {
  ASSERT_TRUE(files_.CreateDirectories(Path("kept")).ok());
  ASSERT_TRUE(files_.CreateDirectories(Path("gone")).ok());
  ASSERT_TRUE(files_.WriteStringToFile(Path("kept/f"), "f").ok());
  ASSERT_EQ(symlink(Path("kept").c_str(), Path("gone/link").c_str()), 0);
  ASSERT_TRUE(files_.DeleteRecursively(Path("gone")).ok());
  EXPECT_TRUE(files_.FileExists(Path("kept/f")).ok());
}

TEST_F(FileSystemTest, ErrorsSayWhatWhereAndWhy) {
  const absl::Status missing = files_.ReadFileToString(Path("none")).status();
  EXPECT_EQ(missing, NotFound("open ", Path("none"), ": No such file or directory"));
  EXPECT_EQ(files_.NewWritableFile(Path("no/such/folder")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(files_.NewRandomAccessFile(folder_).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(files_.NewWritableFile(folder_).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(files_.FileSize(folder_).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(files_.ListDirectory(Path("none")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(files_.SyncDirectory(Path("none")).code(), absl::StatusCode::kNotFound);
  const absl::Status rename = files_.Rename(Path("none"), Path("other"));
  EXPECT_EQ(rename, NotFound("rename ", Path("none"), " to ", Path("other"), ": No such file or directory"));
}

TEST_F(FileSystemTest, PathsWithAZeroByteAreRefused) {
  ASSERT_TRUE(files_.WriteStringToFile(Path("file"), "x").ok());
  const std::string bad = Path("file") + std::string("\0more", 5);
  const auto refused = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_NE(status.message().find("zero byte"), absl::string_view::npos) << status;
  };
  refused(files_.NewWritableFile(bad).status());
  refused(files_.NewRandomAccessFile(bad).status());
  refused(files_.Rename(bad, Path("other")));
  refused(files_.Rename(Path("file"), bad));
  refused(files_.DeleteFile(bad));
  refused(files_.DeleteRecursively(bad));
  refused(files_.FileExists(bad));
  refused(files_.FileSize(bad).status());
  refused(files_.ListDirectory(bad).status());
  refused(files_.CreateDirectories(bad));
  refused(files_.SyncDirectory(bad));
  EXPECT_EQ(*files_.ReadFileToString(Path("file")), "x");
}

TEST_F(FileSystemTest, ErrorCodesFit) {
  const auto code = [](int error) { return FileError("write", "/x", error).code(); };
  EXPECT_EQ(code(ENOSPC), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(EFBIG), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(EDQUOT), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(EMFILE), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(EACCES), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code(EROFS), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code(EEXIST), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(FileError("write", "/x", ENOSPC), ResourceExhausted("write /x: No space left on device"));
}

TEST_F(FileSystemTest, AFullDiskIsReportedAndStaysReported) {
  auto file = files_.NewWritableFile("/dev/full");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("small").ok());
  EXPECT_EQ((*file)->Flush().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ((*file)->Append(std::string(100000, 'x')).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ((*file)->Close().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(FileSystemTest, PathsMayHaveTheSchemeOfThisMachine) {
  ASSERT_TRUE(files_.CreateDirectories("file://" + Path("d")).ok());
  ASSERT_TRUE(files_.WriteStringToFile("file://" + Path("d/f"), "here").ok());
  EXPECT_EQ(*files_.ReadFileToString(Path("d/f")), "here");
  EXPECT_EQ(*files_.ReadFileToString("file://localhost" + Path("d/f")), "here");
  const auto found = MatchingPaths(files_, "file://" + Path("d/*"));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, std::vector<std::string>{"file://" + Path("d/f")});
}

// A device may be endless, and opening a pipe may block.
TEST_F(FileSystemTest, OnlyRegularFilesAreRead) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  for (const std::string& path : {std::string("/dev/zero"), std::string("/dev/urandom"), Path("pipe")}) {
    const auto read = files_.ReadFileToString(path);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kFailedPrecondition) << path << ": " << read.status();
  }
  EXPECT_FALSE(files_.NewWritableFile(Path("pipe")).ok()) << "nobody reads it";
  EXPECT_TRUE(files_.ReadFileToString("/proc/self/status").ok());
}

TEST_F(FileSystemTest, AFileLargerThanTheMemoryIsNotRead) {
  auto file = *files_.NewWritableFile(Path("sparse"));
  ASSERT_TRUE(file->Close().ok());
  ASSERT_EQ(truncate(Path("sparse").c_str(), off_t{1} << 42), 0);
  EXPECT_EQ(files_.ReadFileToString(Path("sparse")).status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace thalweg
