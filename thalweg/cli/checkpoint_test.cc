// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <sstream>

#include "absl/flags/reflection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/file_system.h"
#include "thalweg/base/folder_testlib.h"
#include "thalweg/base/logging.h"
#include "thalweg/checkpoint/bundle.h"
#include "thalweg/checkpoint/bundle_writer.h"
#include "thalweg/cli/program.h"
#include "thalweg/train/checkpoints/checkpoint_state.h"

namespace thalweg::cli {
namespace {

using testing::HasSubstr;

class CheckpointTest : public FolderTest {
 protected:
  CheckpointTest() {
    Write("m-1", Tensor::Of<float>({2}, {1, 2}), Tensor::Scalar<int64_t>(1));
    Write("m-2", Tensor::Of<float>({2}, {1, 2.5}), Tensor::Scalar<int64_t>(2));
    CHECK(WriteCheckpointState(folder_, {.latest = Path("m-2"), .saved = {{Path("m-1"), 1.7e9}, {Path("m-2"), 1.7e9}}})
              .ok());
  }

  void Write(const std::string& name, const Tensor& w, const Tensor& step) {
    const auto writer = BundleWriter::Create(PosixFileSystem(), Path(name));
    CHECK((*writer)->Add("global_step", step).ok() && (*writer)->Add("w", w).ok() && (*writer)->Finish().ok());
  }
  int Run(std::vector<std::string> args) {
    absl::FlagSaver saver;
    std::ostringstream out, err;
    args.insert(args.begin(), "checkpoint");
    const int code = RunProgram(args, out, err);
    out_ = out.str();
    err_ = err.str();
    return code;
  }

  std::string out_, err_;
};

TEST_F(CheckpointTest, ListAndShow) {
  ASSERT_EQ(Run({"list", folder_}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr(Path("m-1")));
  EXPECT_THAT(out_, HasSubstr("  latest\n"));
  ASSERT_EQ(Run({"show", folder_}), 0) << err_;
  EXPECT_EQ(out_, "global_step: int64 []\nw: float [2]\n2 tensors, 3 values, 16 B\n");
  ASSERT_EQ(Run({"--tensor", "w", "show", Path("m-1.index")}), 0) << err_;
  EXPECT_EQ(out_, "w: float [2] [1 2]\n");
  EXPECT_EQ(Run({"show", Path("m-1.data-00000-of-00001"), "--tensor", "x"}), 1);
  EXPECT_EQ(err_, "NOT_FOUND: Key x not found in checkpoint\n");
}

TEST_F(CheckpointTest, VerifyFindsDamage) {
  ASSERT_EQ(Run({"verify", folder_, Path("m-1")}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("m-2: 2 tensors, no damage found\n"));
  const std::string data = DataPath(Path("m-1"), 0, 1);
  std::string bytes = *PosixFileSystem().ReadFileToString(data);
  bytes.back() ^= 1;
  ASSERT_TRUE(PosixFileSystem().WriteStringToFile(data, bytes).ok());
  EXPECT_EQ(Run({"verify", Path("m-1")}), 1);
  EXPECT_THAT(out_, HasSubstr("w: tensor w in " + data + ": Checksum does not match"));
  EXPECT_THAT(err_, HasSubstr("DATA_LOSS: " + Path("m-1") + ": 1 of 2 tensors are damaged"));
  ASSERT_TRUE(PosixFileSystem().WriteStringToFile(data, bytes.substr(0, 4)).ok());
  EXPECT_EQ(Run({"verify", Path("m-1")}), 1);
  EXPECT_THAT(err_, HasSubstr("2 of 2 tensors are damaged"));
  ASSERT_TRUE(PosixFileSystem().WriteStringToFile(DataPath(Path("m-2"), 0, 1), "cut").ok());
  EXPECT_EQ(Run({"verify", folder_}), 1) << "the latest, not the one before it";
  EXPECT_THAT(err_, HasSubstr(Path("m-2") + ": 2 of 2 tensors are damaged"));
  ASSERT_TRUE(PosixFileSystem().DeleteFile(data).ok());
  EXPECT_EQ(Run({"verify", Path("m-1")}), 1);
  EXPECT_THAT(out_, HasSubstr("No such file"));
  ASSERT_TRUE(PosixFileSystem().WriteStringToFile(IndexPath(Path("m-1")), "cut").ok());
  EXPECT_EQ(Run({"verify", Path("m-1")}), 1);
  EXPECT_THAT(err_, HasSubstr("DATA_LOSS: Unable to read file (" + IndexPath(Path("m-1"))));
}

TEST_F(CheckpointTest, Diff) {
  EXPECT_EQ(Run({"diff", Path("m-1"), Path("m-1")}), 0) << err_;
  EXPECT_EQ(out_, "2 tensors, all equal\n");
  EXPECT_EQ(Run({"diff", Path("m-1"), Path("m-2")}), 1);
  EXPECT_EQ(out_, "global_step: values differ by up to 1\nw: values differ by up to 0.5\n");
  EXPECT_EQ(err_, "FAILED_PRECONDITION: 2 of 2 tensors differ\n");
  EXPECT_EQ(Run({"--tolerance=0.5", "diff", Path("m-1"), Path("m-2")}), 1);
  EXPECT_EQ(out_, "global_step: values differ by up to 1\n");
  Write("m-3", Tensor::Scalar<float>(1), Tensor::Scalar<int64_t>(1));
  EXPECT_EQ(Run({"diff", Path("m-1"), Path("m-3")}), 1);
  EXPECT_EQ(out_, "w: float [2] against float []\n");
}

TEST_F(CheckpointTest, MergeMakesOneOfSeveral) {
  const auto writer = BundleWriter::Create(PosixFileSystem(), Path("orphan-ps-1"));
  CHECK((*writer)->Add("v", Tensor::Scalar<float>(5)).ok() && (*writer)->Finish().ok());
  EXPECT_EQ(Run({"merge", Path("m-3"), Path("m-2"), Path("m-1")}), 1);
  EXPECT_THAT(err_, HasSubstr("INVALID_ARGUMENT"));
  EXPECT_EQ(Run({"merge", Path("m-1"), Path("m-2")}), 1);
  EXPECT_EQ(err_, "ALREADY_EXISTS: checkpoint " + Path("m-1") + " already exists\n");
  EXPECT_EQ(Run({"merge", Path("m-3"), Path("m-2"), Path("none")}), 1);
  ASSERT_EQ(Run({"merge", Path("m-3"), Path("m-2"), Path("orphan-ps-1.index")}), 0) << err_;
  EXPECT_EQ(out_, Path("m-3") + ": 3 tensors, the latest of " + folder_ + "\n");
  EXPECT_EQ(Run({"verify", folder_}), 0) << err_;
  EXPECT_EQ(out_, Path("m-3") + ": 3 tensors, no damage found\n");
}

TEST_F(CheckpointTest, WrongArguments) {
  EXPECT_EQ(Run({}), 1);
  EXPECT_EQ(Run({"eat", folder_}), 1);
  EXPECT_EQ(err_, "INVALID_ARGUMENT: unknown action 'eat': expected list, show, verify, diff or merge\n");
  EXPECT_EQ(Run({"diff", folder_}), 1);
  EXPECT_EQ(err_, "INVALID_ARGUMENT: expected: thalweg checkpoint diff CHECKPOINT CHECKPOINT\n");
  EXPECT_EQ(Run({"show", Path("none")}), 1);
  EXPECT_THAT(err_, HasSubstr("NOT_FOUND: there is no checkpoint " + Path("none")));
  EXPECT_EQ(Run({"list", "/nowhere"}), 1);
  EXPECT_EQ(err_, "NOT_FOUND: there are no checkpoints in /nowhere\n");
  EXPECT_EQ(Run({"show", folder_, "--graph=x"}), 1);
  EXPECT_EQ(err_, "INVALID_ARGUMENT: unknown flag '--graph=x'\n");
  EXPECT_EQ(Run({"--help"}), 0);
  EXPECT_THAT(out_, HasSubstr("thalweg checkpoint list FOLDER | show CHECKPOINT"));
}

}  // namespace
}  // namespace thalweg::cli
