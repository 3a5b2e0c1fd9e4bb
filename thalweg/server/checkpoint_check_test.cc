// SPDX-License-Identifier: Apache-2.0
#include "thalweg/server/checkpoint_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "thalweg/base/folder_testlib.h"
#include "thalweg/checkpoint/bundle.h"
#include "thalweg/checkpoint/bundle_writer.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

CheckpointStatus StatusAfterReading(const std::string& prefix) {
  TaskMonitor monitor("/job:worker/replica:0/task:0");
  CheckpointCheck check(&monitor, &PosixFileSystem());
  check.Look();  // there is none yet
  monitor.SetCheckpoint(prefix, 0, 1'000'000'000);
  TaskStatus status;
  while (status.checkpoint().verified().empty() && status.checkpoint().damage().empty()) {
    check.Look();
    status.Clear();
    monitor.Fill(&status);
    absl::SleepFor(absl::Milliseconds(1));
  }
  return status.checkpoint();
}

std::string Write(const TempFolder& folder) {
  const std::string prefix = folder.path() + "/model.ckpt-7";
  const auto writer = BundleWriter::Create(PosixFileSystem(), prefix);
  EXPECT_TRUE(writer.ok() && (*writer)->Add("v", Tensor::Zeros(kFloat, Shape({1000}))).ok());
  EXPECT_TRUE((*writer)->Finish().ok());
  return prefix;
}

TEST(CheckpointCheck, MeasuresAndReadsBack) {
  const TempFolder folder;
  const std::string prefix = Write(folder);
  const CheckpointStatus status = StatusAfterReading(prefix);
  EXPECT_EQ(status.verified(), prefix);
  EXPECT_EQ(status.damage(), "");
  EXPECT_GT(status.bytes(), 4000);
  EXPECT_EQ(status.seconds(), 1);
}

TEST(CheckpointCheck, FindsDamage) {
  const TempFolder folder;
  const std::string prefix = Write(folder);
  ASSERT_TRUE(PosixFileSystem().WriteStringToFile(DataPath(prefix, 0, 1), std::string(4000, 'x')).ok());
  const CheckpointStatus status = StatusAfterReading(prefix);
  EXPECT_EQ(status.verified(), "");
  EXPECT_THAT(status.damage(), HasSubstr("model.ckpt-7"));
}

}  // namespace
}  // namespace thalweg
