// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "thalweg/base/file_system.h"
#include "thalweg/base/folder_testlib.h"
#include "thalweg/graph/file_role.h"
#include "thalweg/ops/io_ops.h"
#include "thalweg/ops/support/array_ops_testlib.h"

namespace thalweg {
namespace {

class SaveRestoreTest : public FolderTest {
 protected:
  Tensor Path(const std::string& name) const { return Tensor::Scalar<std::string>(FolderTest::Path(name)); }
  static void Run(absl::string_view op, std::vector<OpArg> inputs) {
    const auto result = RunOp(op, std::move(inputs));
    EXPECT_TRUE(result.ok()) << result.status();
  }
  Tensor RestoreOne(const std::string& prefix, const std::string& name, DType dtype, const std::string& slice = "") {
    return Result("RestoreV2", {Path(prefix), Strings({name}), Strings({slice})},
                  {{"dtypes", std::vector<DType>{dtype}}});
  }
  absl::Status RestoreError(const std::string& prefix, const std::string& name, DType dtype,
                            const std::string& slice = "") {
    return KernelError("RestoreV2", {Path(prefix), Strings({name}), Strings({slice})},
                       {{"dtypes", std::vector<DType>{dtype}}});
  }
};

TEST_F(SaveRestoreTest, V2) {
  Run("SaveV2", {Path("new/ckpt"), Strings({"b", "a"}), Strings({"", ""}),
                 std::vector<Tensor>{FloatVector({1, 2, 3}), Strings({"x", ""})}});
  const auto both = RunOp("RestoreV2", {Path("new/ckpt"), Strings({"a", "b"}), Strings({"", "3 1,2"})},
                          {{"dtypes", std::vector<DType>{kString, kFloat}}});
  ASSERT_TRUE(both.ok()) << both.status();
  ExpectTensor((*both)[0], Strings({"x", ""}));
  ExpectTensor((*both)[1], FloatVector({2, 3}));

  EXPECT_THAT(RestoreError("new/ckpt", "c", kFloat).ToString(),
              testing::StartsWith("NOT_FOUND: Key c not found in checkpoint"));
  EXPECT_THAT(RestoreError("none", "c", kFloat).ToString(),
              testing::StartsWith("NOT_FOUND: Unsuccessful TensorSliceReader constructor: Failed to find any matching "
                                  "files for "));
  ExpectInvalid(RestoreError("new/ckpt", "b", kInt32),
                "tensor_name = b; expected dtype int32 does not equal original dtype float");
  ExpectInvalid(
      RestoreError("new/ckpt", "b", kFloat, "4 1,2"),
      "tensor_name = b; shape in shape_and_slice spec [4] does not match the shape stored in checkpoint: [3]");
  ExpectInvalid(KernelError("SaveV2", {Path("x"), Strings({"a"}), Strings({"", ""}), std::vector<Tensor>{Ints({1})}}),
                "tensor_names and shape_and_slices have different number of elements: 1 vs. 2");
  ExpectInvalid(KernelError("SaveV2", {Path("x"), Strings({"a"}), Strings({"4 0,2"}), std::vector<Tensor>{Ints({1})}}),
                "Slice in shape_and_slice specification does not match");
  EXPECT_EQ(PosixFileSystem().ListDirectory(folder_)->size(), 1) << "failed saves leave nothing";
  EXPECT_EQ(
      InferShape("RestoreV2", {{kString, {}}, {kString, {1}}, {kString, {1}}}, {{"dtypes", std::vector<DType>{kFloat}}})
          .value(),
      "<unknown>");
}

TEST_F(SaveRestoreTest, Merge) {
  for (int i = 0; i < 2; ++i) {
    const std::string rows = i == 0 ? "2 2 0,1:-" : "2 2 1,1:-";
    Run("SaveV2", {Path("temp/part" + std::to_string(i)), Strings({"w", "v" + std::to_string(i)}), Strings({rows, ""}),
                   std::vector<Tensor>{Counting({1, 2}), Ints({i})}});
  }
  const Tensor parts = Strings({folder_ + "/temp/part0", folder_ + "/temp/part1"});
  Run("MergeV2Checkpoints", {parts, Path("merged")});
  ExpectTensor(RestoreOne("merged", "w", kFloat), Tensor::Of<float>({2, 2}, {1, 2, 1, 2}));
  ExpectTensor(RestoreOne("merged", "w", kFloat, "2 2 -:1,1"), Tensor::Of<float>({2, 1}, {2, 2}));
  ExpectTensor(RestoreOne("merged", "v1", kInt32), Ints({1}));
  EXPECT_EQ(PosixFileSystem().ListDirectory(folder_)->size(), 3) << "the folder of the parts is gone";
  ExpectInvalid(KernelError("MergeV2Checkpoints", {parts, Path("merged")}), "allow_missing_files was set to false");
}

TEST_F(SaveRestoreTest, V1) {
  Run("Save", {Path("old"), Strings({"b", "a"}), std::vector<Tensor>{FloatVector({1, 2, 3}), Strings({"x", ""})}});
  ExpectTensor(Result("Restore", {Path("old"), Tensor::Scalar<std::string>("b")}, {{"dt", kFloat}}),
               FloatVector({1, 2, 3}));
  ExpectTensor(RestoreOne("old", "a", kString), Strings({"x", ""}));
  Run("SaveSlices", {Path("parts-0"), Strings({"w"}), Strings({"2 2 0,1:-"}), std::vector<Tensor>{Counting({1, 2})}});
  Run("SaveSlices", {Path("parts-1"), Strings({"w"}), Strings({"2 2 1,1:-"}), std::vector<Tensor>{Counting({1, 2})}});
  ExpectTensor(Result("RestoreSlice",
                      {Path("parts-?"), Tensor::Scalar<std::string>("w"), Tensor::Scalar<std::string>("2 2 -:0,1")},
                      {{"dt", kFloat}}),
               Tensor::Of<float>({2, 1}, {1, 1}));
  EXPECT_THAT(KernelError("Restore", {Path("old"), Tensor::Scalar<std::string>("q")}, {{"dt", kFloat}}).ToString(),
              testing::StartsWith("NOT_FOUND: Tensor name \"q\" not found in checkpoint files "));
  ExpectInvalid(KernelError("Restore", {Path("old"), Tensor::Scalar<std::string>("b")}, {{"dt", kInt32}}),
                "Expected to restore a tensor of type int32, got a tensor of type float instead: tensor_name = b");
}

TEST(ShardedFilenameTest, Values) {
  const Tensor name = Tensor::Scalar<std::string>("/tmp/x");
  ExpectTensor(Result("ShardedFilename", {name, Int(1), Int(3)}), Tensor::Scalar<std::string>("/tmp/x-00001-of-00003"));
  ExpectTensor(Result("ShardedFilespec", {name, Int(3)}), Tensor::Scalar<std::string>("/tmp/x-?????"
                                                                                      "-of-00003"));
  ExpectInvalid(KernelError("ShardedFilename", {name, Ints({1}), Int(3)}), "shard must be a scalar, got shape [1]");
}

// The runtime schedules writes and orders checkpoints by these roles.
TEST(FileRoles, AreDeclaredWithTheOps) {
  for (const char* op : {"SaveV2", "SaveSlices"}) EXPECT_EQ(FileRoleOf(op), FileRole::kSave) << op;
  for (const char* op : {"RestoreV2", "Restore", "RestoreSlice"}) EXPECT_EQ(FileRoleOf(op), FileRole::kRestore) << op;
  for (const char* op : {"Save", "MergeV2Checkpoints", "WriteFile"}) EXPECT_EQ(FileRoleOf(op), FileRole::kWrite) << op;
  EXPECT_EQ(FileRoleOf("ThalwegSnapshotValues"), FileRole::kSnapshot);
  EXPECT_EQ(FileRoleOf("ReadFile"), FileRole::kNone);
  EXPECT_TRUE(WritesFiles("SaveV2") && WritesFiles("WriteFile"));
  EXPECT_FALSE(WritesFiles("RestoreV2") || WritesFiles("ReadFile"));
}

}  // namespace
}  // namespace thalweg
