// SPDX-License-Identifier: Apache-2.0
#include "thalweg/data/snapshot.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/status.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg::data {
namespace {

using testing::HasSubstr;

class SnapshotTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<SnapshotWriter> Start(Compression compression = Compression::kNone) {
    return *SnapshotWriter::Create(folder_, {.graph_hash = "7", .types = types_, .compression = compression});
  }
  static std::vector<Tensor> Pair(int64_t number) {
    return {Tensor::Scalar(number), Tensor::Vector<std::string>({"x", absl::StrCat(number)})};
  }
  std::vector<int64_t> Numbers(const std::string& shard, Compression compression = Compression::kNone) {
    SnapshotShardReader reader(shard, compression, types_);
    std::vector<int64_t> numbers;
    while (true) {
      const auto element = *reader.Next();
      if (!element) return numbers;
      numbers.push_back((*element)[0].scalar<int64_t>());
      EXPECT_EQ((*element)[1].data<std::string>()[1], absl::StrCat(numbers.back()));
    }
  }

  const std::string folder_ = testing::TempDir() + "/snapshot_test";
  const std::vector<DType> types_{kInt64, kString};
};

TEST_F(SnapshotTest, ReadsWhatWasWritten) {
  for (const Compression compression : {Compression::kNone, Compression::kGzip, Compression::kSnappy}) {
    const auto writer = Start(compression);
    for (int64_t i = 0; i < 7; ++i) ASSERT_TRUE(writer->Write(i % 2, Pair(i)).ok());
    EXPECT_FALSE((*ReadSnapshotMetadata(folder_))->finalized());
    ASSERT_TRUE(writer->Finish().ok());
    const auto metadata = **ReadSnapshotMetadata(folder_);
    EXPECT_TRUE(metadata.finalized());
    EXPECT_EQ(metadata.num_elements(), 7);
    EXPECT_EQ(metadata.graph_hash(), "7");
    const std::vector<std::string> shards = *SnapshotShards(folder_, metadata.run_id());
    ASSERT_EQ(shards.size(), 2);
    EXPECT_EQ(Numbers(shards[0], compression), (std::vector<int64_t>{0, 2, 4, 6}));
    EXPECT_EQ(Numbers(shards[1], compression), (std::vector<int64_t>{1, 3, 5}));
  }
}

TEST_F(SnapshotTest, AShardOfSeveralFiles) {
  const auto writer = Start();
  for (int64_t i = 0; i < 2; ++i) ASSERT_TRUE(writer->Write(i, Pair(i)).ok());
  ASSERT_TRUE(writer->Finish().ok());
  const std::vector<std::string> shards = *SnapshotShards(folder_, (*ReadSnapshotMetadata(folder_))->run_id());
  std::filesystem::rename(shards[1] + "/00000000.snapshot", shards[0] + "/00000001.snapshot");
  EXPECT_EQ(Numbers(shards[0]), (std::vector<int64_t>{0, 1}));
}

TEST_F(SnapshotTest, RefusesDamagedFiles) {
  EXPECT_FALSE(ReadSnapshotMetadata(folder_)->has_value());
  const auto writer = Start();
  ASSERT_TRUE(writer->Write(0, Pair(1)).ok());
  ASSERT_TRUE(writer->Finish().ok());
  const std::string shard = SnapshotShards(folder_, (*ReadSnapshotMetadata(folder_))->run_id())->front();
  EXPECT_THAT(SnapshotShardReader(shard, Compression::kNone, {kFloat, kString}).Next().status().ToString(),
              HasSubstr("component 0 has type int64, expected float"));
  EXPECT_THAT(SnapshotShardReader(shard, Compression::kNone, {kInt64, kString, kFloat}).Next().status().ToString(),
              HasSubstr("the last element is incomplete"));
  FileSystem& files = PosixFileSystem();
  ASSERT_TRUE(files.WriteStringToFile(folder_ + "/snapshot.metadata", "\xff").ok());
  EXPECT_EQ(ReadSnapshotMetadata(folder_).status().code(), absl::StatusCode::kDataLoss);
  tensorflow::data::experimental::SnapshotMetadataRecord metadata;
  metadata.set_run_id("../elsewhere");
  ASSERT_TRUE(files.WriteStringToFile(folder_ + "/snapshot.metadata", metadata.SerializeAsString()).ok());
  EXPECT_EQ(ReadSnapshotMetadata(folder_).status().code(), absl::StatusCode::kDataLoss);
  metadata.set_run_id("1");
  metadata.set_finalized(true);
  ASSERT_TRUE(files.WriteStringToFile(folder_ + "/snapshot.metadata", metadata.SerializeAsString()).ok());
  EXPECT_EQ(ReadSnapshotMetadata(folder_).status().code(), absl::StatusCode::kUnimplemented);
}

// A dataset inside of an element cannot be written.
TEST_F(SnapshotTest, RefusesVariantsThatCannotBeWritten) {
  class Unknown final : public VariantValue {
   public:
    std::string TypeName() const override { return "unknown"; }
    std::string ToString() const override { return "unknown"; }
    bool Encode(tensorflow::VariantTensorDataProto*) const override { return false; }
  };
  const Tensor variant = Tensor::Scalar(Variant(std::make_shared<const Unknown>()));
  EXPECT_EQ(Start()->Write(0, {variant}).code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace thalweg::data
