// SPDX-License-Identifier: Apache-2.0
#include "thalweg/data/tfrecord.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/status.h"

namespace thalweg::data {
namespace {

using testing::HasSubstr;

class TfRecordTest : public testing::TestWithParam<Compression> {
 protected:
  std::string path_ = testing::TempDir() + "/records";
  FileSystem& files_ = PosixFileSystem();

  void Write(const std::vector<std::string>& records, Compression compression) {
    auto writer = RecordWriter::Open(path_, compression);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const std::string& record : records) {
      EXPECT_TRUE((*writer)->Write(record).ok());
      if (record.size() % 2 == 1) {
        EXPECT_TRUE((*writer)->Flush().ok());
      }
    }
    EXPECT_TRUE((*writer)->Close().ok());
  }
  absl::StatusOr<std::vector<std::string>> Read(Compression compression) {
    ASSIGN_OR_RETURN(const auto reader, RecordReader::Open(path_, compression));
    std::vector<std::string> records;
    std::string record;
    for (;;) {
      ASSIGN_OR_RETURN(const bool found, reader->Next(&record));
      if (!found) return records;
      records.push_back(record);
    }
  }
  std::string Error(Compression compression = Compression::kNone) { return Read(compression).status().ToString(); }
  void Change(size_t at) {
    std::string bytes = *files_.ReadFileToString(path_);
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    ASSERT_TRUE(files_.WriteStringToFile(path_, bytes).ok());
  }
  void Cut(size_t n) {
    std::string bytes = *files_.ReadFileToString(path_);
    bytes.resize(bytes.size() - n);
    ASSERT_TRUE(files_.WriteStringToFile(path_, bytes).ok());
  }
};

TEST_P(TfRecordTest, ReadsWhatWasWritten) {
  std::vector<std::string> records = {"", "ab", std::string(3, '\0'), std::string(1 << 20, 'x')};
  std::string noise(300000, ' ');
  uint32_t state = 1;
  for (char& c : noise) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  records.push_back(noise);
  Write(records, GetParam());
  const auto read = Read(GetParam());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(*read == records);
  Write({}, GetParam());
  EXPECT_TRUE(Read(GetParam())->empty());
}
INSTANTIATE_TEST_SUITE_P(All, TfRecordTest,
                         testing::Values(Compression::kNone, Compression::kZlib, Compression::kGzip,
                                         Compression::kSnappy));

TEST_F(TfRecordTest, DamagedSnappyBlocks) {
  Write({std::string(1000, 'x'), "cde"}, Compression::kSnappy);
  const std::string bytes = *files_.ReadFileToString(path_);
  Cut(1);
  EXPECT_THAT(Error(Compression::kSnappy), HasSubstr("DATA_LOSS: " + path_ + ": compressed data ends too early"));
  ASSERT_TRUE(files_.WriteStringToFile(path_, bytes.substr(0, 2)).ok());
  EXPECT_THAT(Error(Compression::kSnappy), HasSubstr("compressed data ends too early"));
  // A block that claims to have 4 GB.
  ASSERT_TRUE(files_.WriteStringToFile(path_, std::string("\0\0\0\5\xff\xff\xff\xff\xf", 9)).ok());
  EXPECT_THAT(Error(Compression::kSnappy), HasSubstr("DATA_LOSS: " + path_ + ": broken compression"));
}

TEST_F(TfRecordTest, SkipsToAnOffset) {
  Write({"ab", "cde"}, Compression::kNone);
  auto reader = *RecordReader::Open(path_, Compression::kNone);
  EXPECT_TRUE(reader->Skip(12 + 2 + 4).ok());
  std::string record;
  EXPECT_TRUE(*reader->Next(&record));
  EXPECT_EQ(record, "cde");
  EXPECT_EQ(reader->Skip(1).code(), absl::StatusCode::kOutOfRange);
}

TEST_F(TfRecordTest, TheBytesAreTensorFlows) {
  Write({"ab"}, Compression::kNone);
  EXPECT_EQ(absl::BytesToHexString(*files_.ReadFileToString(path_)),
            "020000000000000078270b34"
            "6162"
            "1cb0f0f4");
}

TEST_F(TfRecordTest, OffsetsOfRecords) {
  Write({"ab", "c"}, Compression::kGzip);
  auto reader = *RecordReader::Open(path_, Compression::kGzip);
  std::string record;
  EXPECT_TRUE(*reader->Next(&record));
  EXPECT_EQ(reader->offset(), 18);
}

TEST_F(TfRecordTest, DamageIsFound) {
  Write({"ab", "cde"}, Compression::kNone);
  Change(0);
  EXPECT_EQ(Error(), "DATA_LOSS: corrupted record at 0 of " + path_);
  Change(0), Change(30);
  EXPECT_EQ(Error(), "DATA_LOSS: corrupted record at 18 of " + path_);
  Change(30), Cut(1);
  EXPECT_EQ(Error(), "DATA_LOSS: truncated record at 18 of " + path_);
  Cut(4);
  EXPECT_EQ(Error(), "DATA_LOSS: truncated record at 18 of " + path_);
  Cut(9);
  EXPECT_EQ(Error(), "DATA_LOSS: truncated record at 18 of " + path_);
  auto reader = *RecordReader::Open(path_);
  std::string record;
  EXPECT_TRUE(*reader->Next(&record));
  EXPECT_FALSE(reader->Next(&record).ok());
  EXPECT_FALSE(reader->Next(&record).ok()) << "it stays broken";
}

TEST_F(TfRecordTest, DamagedCompression) {
  Write({std::string(1000, 'x'), "cde"}, Compression::kGzip);
  Cut(12);
  EXPECT_THAT(Error(Compression::kGzip), HasSubstr("DATA_LOSS: " + path_ + ": compressed data ends too early"));
  Change(0);
  EXPECT_THAT(Error(Compression::kGzip), HasSubstr("DATA_LOSS: " + path_ + ": broken compression"));
  EXPECT_THAT(Error(Compression::kZlib), HasSubstr("DATA_LOSS"));
}

TEST_F(TfRecordTest, MissingFilesAndNames) {
  ASSERT_TRUE(files_.WriteStringToFile(path_, "").ok());
  ASSERT_TRUE(files_.DeleteFile(path_).ok());
  EXPECT_THAT(Error(), HasSubstr("NOT_FOUND"));
  EXPECT_EQ(*CompressionFromName(""), Compression::kNone);
  EXPECT_EQ(*CompressionFromName("ZLIB"), Compression::kZlib);
  EXPECT_EQ(*CompressionFromName("GZIP"), Compression::kGzip);
  EXPECT_EQ(*CompressionFromName("SNAPPY"), Compression::kSnappy);
  EXPECT_FALSE(CompressionFromName("LZO").ok());
}

TEST_F(TfRecordTest, Lines) {
  ASSERT_TRUE(files_.WriteStringToFile(path_, "a\r\n\nb\rc\n" + std::string(200000, 'x') + "\nlast").ok());
  auto stream = *OpenByteStream(path_);
  std::string line;
  std::vector<std::string> lines;
  while (*stream->ReadLine(&line)) lines.push_back(line);
  EXPECT_THAT(lines, testing::ElementsAre("a", "", "b\rc", std::string(200000, 'x'), "last"));
}

}  // namespace
}  // namespace thalweg::data
