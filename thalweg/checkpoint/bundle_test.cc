// SPDX-License-Identifier: Apache-2.0
#include "thalweg/checkpoint/bundle.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/fault_file_system_testlib.h"
#include "thalweg/base/folder_testlib.h"
#include "thalweg/base/status.h"
#include "thalweg/checkpoint/bundle_reader.h"
#include "thalweg/checkpoint/bundle_writer.h"
#include "thalweg/checkpoint/table.h"
#include "thalweg/checkpoint/v1_checkpoint.h"

namespace thalweg {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class BundleTest : public FolderTest {
 protected:
  absl::Status Write(const std::string& prefix, const std::vector<std::pair<std::string, Tensor>>& tensors) {
    ASSIGN_OR_RETURN(const auto writer, BundleWriter::Create(disk_, Path(prefix)));
    for (const auto& [name, value] : tensors) RETURN_IF_ERROR(writer->Add(name, value));
    return writer->Finish();
  }
  absl::StatusOr<Tensor> Read(const std::string& prefix, const std::string& name) {
    ASSIGN_OR_RETURN(const auto reader, BundleReader::Open(disk_, Path(prefix)));
    return reader->Read(name);
  }
  std::string Text(const std::string& prefix, const std::string& name) {
    const absl::StatusOr<Tensor> value = Read(prefix, name);
    return value.ok() ? value->ToString() : value.status().ToString();
  }

  FaultFileSystem disk_{PosixFileSystem()};
};

TEST(CleanPath, IsOneSpellingForAll) {
  using internal::CleanPath, internal::Folder;
  for (const char* path : {"a/b", "a//b", "./a/b", "a/./b/", ".//a/b/."}) EXPECT_EQ(CleanPath(path), "a/b") << path;
  for (const char* path : {"/a/b", "//a/b//", "/./a/b"}) EXPECT_EQ(CleanPath(path), "/a/b") << path;
  for (const char* path : {"", ".", "./", ".//."}) EXPECT_EQ(CleanPath(path), ".") << path;
  EXPECT_EQ(CleanPath("//"), "/");
  EXPECT_EQ(CleanPath("file:///a//b/"), "/a/b");
  EXPECT_EQ(CleanPath("s3://a/b"), "s3://a/b") << "not a folder s3: of this machine";
  EXPECT_EQ(CleanPath("../a/../.b/c."), "../a/../.b/c.") << "a may be a link";
  EXPECT_EQ(Folder("a//b"), "a");
  EXPECT_EQ(Folder("b"), ".");
  EXPECT_EQ(Folder("./b"), ".");
  EXPECT_EQ(Folder("/b"), "/");
}

TEST_F(BundleTest, GivesBackWhatItGot) {
  const Tensor matrix = Tensor::Of<double>({2, 2}, {1, 2, 3, 4});
  const Tensor strings = Tensor::Vector<std::string>({"", "abc", std::string(300, 'x')});
  ASSERT_TRUE(Write("folder/c", {{"m", matrix},
                                 {"s", strings},
                                 {"b", Tensor::Scalar<bool>(true)},
                                 {"h", Tensor::Vector<Half>({Half(1.5f)})},
                                 {"none", Tensor(kFloat, {0, 3})},
                                 {"no strings", Tensor(kString, {0})}})
                  .ok());
  EXPECT_EQ(Text("folder/c", "m"), matrix.ToString());
  EXPECT_EQ(Text("folder/c", "s"), strings.ToString());
  EXPECT_EQ(Text("folder/c", "b"), Tensor::Scalar<bool>(true).ToString());
  EXPECT_EQ(Read("folder/c", "none")->shape().ToString(), "[0,3]");
  EXPECT_EQ(Read("folder/c", "no strings")->shape().ToString(), "[0]");
  EXPECT_EQ(Text("folder/c", "x"), "NOT_FOUND: Key x not found in checkpoint");
  const auto reader = BundleReader::Open(disk_, Path("folder/c"));
  EXPECT_THAT((*reader)->Names(), ElementsAre("b", "h", "m", "no strings", "none", "s"));
  EXPECT_THAT(*disk_.ListDirectory(Path("folder")), ElementsAre("c.data-00000-of-00001", "c.index"));
}

// A wrong path is not taken for a new one.
TEST_F(BundleTest, LargeTensorsAreWrittenInPieces) {
  Tensor large(kInt32, {2'500'000});  // 10 MB: pieces of the checksum, of the file, and a rest
  const absl::Span<int32_t> elements = large.flat<int32_t>();
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<int32_t>(7919 * i);
  ASSERT_TRUE(Write("c", {{"large", large}, {"next", Tensor::Scalar(5)}}).ok());
  const absl::StatusOr<Tensor> read = Read("c", "large");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(std::ranges::equal(read->flat<int32_t>(), elements));
  EXPECT_EQ(Text("c", "next"), Tensor::Scalar(5).ToString());
}

TEST_F(BundleTest, MakesOneFolderButNotThoseAboveIt) {
  EXPECT_TRUE(Write("new/a", {{"x", Tensor::Scalar<float>(1)}}).ok());
  const absl::Status status = Write("no/such/a", {{"x", Tensor::Scalar<float>(1)}});
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  const absl::Status merged = MergeBundles(disk_, {Path("new/a")}, Path("no/such/a"), {});
  EXPECT_TRUE(absl::IsNotFound(merged)) << merged;
  EXPECT_TRUE(absl::IsNotFound(disk_.FileExists(Path("no"))));
}

TEST_F(BundleTest, RefusesWhatCannotBeSaved) {
  EXPECT_THAT(Write("c", {{"a", Tensor::Scalar<float>(1)}, {"a", Tensor::Scalar<float>(1)}}).ToString(),
              "INVALID_ARGUMENT: Adding duplicate key: a");
  EXPECT_EQ(Write("c", {{"", Tensor::Scalar<float>(1)}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Write("c", {{"r", Tensor(kResource, {1})}}).code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(disk_.ListDirectory(folder_)->empty());
}

TEST_F(BundleTest, Slices) {
  const Shape shape({4, 3});
  const auto slice = [](const char* text) { return *TensorSlice::Parse(text); };
  {
    const auto writer = *BundleWriter::Create(disk_, Path("c"));
    ASSERT_TRUE(writer->AddSlice("w", shape, slice("0,2:-"), Tensor::Of<float>({2, 3}, {0, 1, 2, 3, 4, 5})).ok());
    ASSERT_TRUE(writer->AddSlice("w", shape, slice("2,2:0,1"), Tensor::Of<float>({2, 1}, {6, 9})).ok());
    ASSERT_TRUE(writer->AddSlice("w", shape, slice("2,2:1,2"), Tensor::Of<float>({2, 2}, {7, 8, 10, 11})).ok());
    ASSERT_TRUE(writer->AddSlice("half", Shape({2}), slice("0,1"), Tensor::Vector<std::string>({"x"})).ok());
    EXPECT_TRUE(writer->AddSlice("all", Shape({1}), slice("0,1"), Tensor::Vector<int32_t>({7})).ok());
    ASSERT_TRUE(writer->Finish().ok());
  }
  const auto reader = *BundleReader::Open(disk_, Path("c"));
  const absl::StatusOr<Tensor> whole = reader->Read("w");
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (int i = 0; i < 12; ++i) EXPECT_EQ(whole->data<float>()[i], static_cast<float>(i));
  EXPECT_EQ(reader->ReadSlice("w", slice("1,2:1,1"))->ToString(), Tensor::Of<float>({2, 1}, {4, 7}).ToString());
  EXPECT_EQ(reader->ReadSlice("w", slice("2,2:0,1"))->ToString(), Tensor::Of<float>({2, 1}, {6, 9}).ToString());
  EXPECT_EQ(reader->ReadSlice("all", slice("0,1"))->ToString(), Tensor::Vector<int32_t>({7}).ToString());
  EXPECT_THAT(reader->Read("half").status().ToString(),
              HasSubstr("INVALID_ARGUMENT: Does not have sufficient slices for partitioned tensor half"));
  EXPECT_EQ(reader->ReadSlice("w", slice("3,2:-")).status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(reader->Names(), ElementsAre("all", "half", "w"));
}

TEST_F(BundleTest, Merge) {
  ASSERT_TRUE(Write("a", {{"x", Tensor::Scalar<float>(1)}}).ok());
  ASSERT_TRUE(Write("b", {{"y", Tensor::Scalar<float>(2)}}).ok());
  ASSERT_TRUE(Write("d", {{"y", Tensor::Scalar<float>(3)}}).ok());
  EXPECT_THAT(MergeBundles(disk_, {Path("b"), Path("d")}, Path("m")).ToString(), HasSubstr("Duplicate tensor keyed"));
  EXPECT_THAT(MergeBundles(disk_, {Path("a"), Path("q")}, Path("m")).ToString(), HasSubstr("allow_missing_files"));
  ASSERT_TRUE(MergeBundles(disk_, {Path("a"), Path("q"), Path("b")}, Path("m"), {.allow_missing_files = true}).ok());
  EXPECT_EQ(Text("m", "y"), Tensor::Scalar<float>(2).ToString());
  EXPECT_THAT(*disk_.ListDirectory(folder_), ElementsAre("d.data-00000-of-00001", "d.index", "m.data-00000-of-00002",
                                                         "m.data-00001-of-00002", "m.index"));
}

// The disk is full at each write in turn, and then the machine goes down: the
// old checkpoint of the same name is as it was.
TEST_F(BundleTest, WhatGoesWrongLeavesTheOldOne) {
  const Tensor old = Tensor::Vector<float>({1, 2});
  const Tensor fresh = Tensor::Vector<float>({3, 4, 5});
  ASSERT_TRUE(Write("c", {{"x", old}}).ok());
  const int64_t before = disk_.writes();
  ASSERT_TRUE(Write("c", {{"x", old}}).ok());
  ASSERT_TRUE(disk_.SyncDirectory(folder_).ok());  // files that were replaced are gone for good
  const int64_t writes = disk_.writes() - before;
  ASSERT_GT(writes, 3);
  for (int64_t n = 1; n <= writes; ++n) {
    disk_.FailWritesFrom(n);
    EXPECT_EQ(Write("c", {{"x", fresh}}).code(), absl::StatusCode::kResourceExhausted) << n;
    disk_.ClearFaults();
    EXPECT_EQ(disk_.ListDirectory(folder_)->size(), 2) << "temporary files are gone";
    EXPECT_EQ(Text("c", "x"), old.ToString());
    ASSERT_TRUE(disk_.Crash().ok());
    EXPECT_EQ(Text("c", "x"), old.ToString());
  }
  ASSERT_TRUE(Write("c", {{"x", fresh}}).ok());
  ASSERT_TRUE(disk_.Crash().ok());
  EXPECT_EQ(Text("c", "x"), fresh.ToString()) << "what was reported as saved stays";
}

// A process that is killed anywhere between the renames, too.
TEST_F(BundleTest, TheOldOneStaysWholeUntilTheIndexIsReplaced) {
  const Tensor old = Tensor::Vector<float>({1, 2}), fresh = Tensor::Vector<float>({3, 4});
  ASSERT_TRUE(Write("c", {{"x", old}}).ok());
  for (const int64_t n : {1, 2}) {
    disk_.FailRenamesFrom(n);
    EXPECT_FALSE(Write("c", {{"x", fresh}}).ok());
    disk_.ClearFaults();
    EXPECT_EQ(Text("c", "x"), old.ToString()) << n;
    for (const char* part : {"a", "b"}) ASSERT_TRUE(Write(part, {{part, fresh}}).ok());
    disk_.FailRenamesFrom(n);
    EXPECT_FALSE(MergeBundles(disk_, {Path("a"), Path("b")}, Path("c")).ok());
    disk_.ClearFaults();
    EXPECT_EQ(Text("c", "x"), old.ToString()) << n;
  }
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Write("c", {{"x", fresh}}).ok());
    EXPECT_EQ(Text("c", "x"), fresh.ToString());
    const std::vector<std::string> names = *disk_.ListDirectory(folder_);
    EXPECT_EQ(std::count_if(names.begin(), names.end(), [](const auto& name) { return name[0] == 'c'; }), 2);
  }
  for (const char* part : {"a", "b"}) ASSERT_TRUE(Write(part, {{part, old}}).ok());
  ASSERT_TRUE(MergeBundles(disk_, {Path("a"), Path("b")}, Path("c")).ok());
  ASSERT_TRUE(disk_.Crash().ok());
  EXPECT_EQ(Text("c", "a"), old.ToString());
}

// No damage of a byte, or cut of a file, gets through or does worse than an error.
TEST_F(BundleTest, Damage) {
  ASSERT_TRUE(Write("c", {{"x", Tensor::Vector<int32_t>({1, 2, 3})}, {"s", Tensor::Vector<std::string>({"ab"})}}).ok());
  for (const std::string& path : {IndexPath(Path("c")), DataPath(Path("c"), 0, 1)}) {
    const std::string good = *disk_.ReadFileToString(path);
    for (size_t i = 0; i < good.size(); ++i) {
      for (const bool cut : {false, true}) {
        std::string bad = good.substr(0, cut ? i : good.size());
        if (!cut) bad[i] = static_cast<char>(~bad[i]);
        ASSERT_TRUE(disk_.WriteStringToFile(path, bad).ok());
        const absl::StatusOr<Tensor> x = Read("c", "x"), s = Read("c", "s");
        for (const auto& value : {x, s}) {
          if (value.ok()) continue;
          EXPECT_EQ(value.status().code(), absl::StatusCode::kDataLoss) << value.status();
          EXPECT_THAT(std::string(value.status().message()), HasSubstr(path));
        }
        // The padding of the footer is all that nobody needs.
        EXPECT_TRUE(!x.ok() || !s.ok() || i + 48 >= good.size()) << path << " " << i;
      }
    }
    ASSERT_TRUE(disk_.WriteStringToFile(path, good).ok());
  }
}

TEST_F(BundleTest, LargeIndexHasManyBlocks) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (int i = 0; i < 20000; ++i) {
    tensors.emplace_back("a/rather/long/name/of/a/variable/" + std::to_string(i), Tensor::Scalar<int32_t>(i));
  }
  ASSERT_TRUE(Write("c", tensors).ok());
  EXPECT_EQ(Text("c", tensors[12345].first), Tensor::Scalar<int32_t>(12345).ToString());
  const auto table = *Table::Open(disk_, IndexPath(Path("c")));
  EXPECT_TRUE(table->Find(tensors[777].first).ok());
  EXPECT_EQ(table->Find("zzz").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(table->Find("a/b").status().code(), absl::StatusCode::kNotFound);
}

TEST(TensorSliceTest, ParsesAndPrints) {
  EXPECT_EQ(TensorSlice::Parse("0,5:-:3,2")->ToString(), "0,5:-:3,2");
  for (const char* bad : {"1", "1,0", "-1,2", "1,-1", "a,b", "1,2,3", "9223372036854775807,2"}) {
    EXPECT_EQ(TensorSlice::Parse(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  for (const char* bad : {"", "4", "x -", "-1 -", "4 5 0,2"}) EXPECT_FALSE(ParseShapeAndSlice(bad).ok()) << bad;
  EXPECT_EQ(ParseShapeAndSlice("4 5 0,2:-")->slice_shape, Shape({2, 5}));
}

TEST(TensorSliceTest, KeysHaveTheOrderOfNumbers) {
  const auto key = [](int64_t start, int64_t length) { return TensorSlice({{start, length}}).Key("a"); };
  EXPECT_EQ(key(0, -1), std::string("\0a\0\1\1\1\x80\x7f", 8));
  EXPECT_EQ(key(64, 8192), std::string("\0a\0\1\1\1\xc0\x40\xe0\x20\x00", 11));
  std::string last;
  for (int64_t n = 1; n < std::numeric_limits<int64_t>::max() / 2; n *= 2) {
    EXPECT_LE(last, key(n - 1, 1));
    EXPECT_LT(key(n - 1, 1), key(n, 1));
    last = key(n, 1);
  }
  EXPECT_LT(last, key(std::numeric_limits<int64_t>::max(), 1));
}

}  // namespace
}  // namespace thalweg
