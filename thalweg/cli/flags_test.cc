// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cli/flags.h"

#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/graph_testlib.h"

ABSL_FLAG(int, test_count, 3, "how many");
ABSL_FLAG(bool, test_loud, false, "whether");
ABSL_FLAG(std::vector<std::string>, test_names, {}, "which");
ABSL_FLAG(int, test_other, 0, "not for this command");

namespace thalweg::cli {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

const std::vector<std::string> kAllowed = {"test_count", "test_loud", "test_names"};

class FlagsTest : public testing::Test {
 protected:
  absl::Status Set(const std::vector<std::string>& args) { return SetFlags(args, kAllowed); }
  absl::FlagSaver saver_;
};

TEST_F(FlagsTest, ValuesFollowOrAreAssigned) {
  ASSERT_THAT(Set({"--test_count", "5"}), IsOk());
  EXPECT_EQ(absl::GetFlag(FLAGS_test_count), 5);
  ASSERT_THAT(Set({"-test_count=-6"}), IsOk());
  EXPECT_EQ(absl::GetFlag(FLAGS_test_count), -6);
  ASSERT_THAT(Set({"--test_count", "1", "--test_count", "2"}), IsOk());
  EXPECT_EQ(absl::GetFlag(FLAGS_test_count), 2) << "the last one counts";
  ASSERT_THAT(Set({}), IsOk());
}

TEST_F(FlagsTest, BoolsNeedNoValue) {
  ASSERT_THAT(Set({"--test_loud", "--test_count=1"}), IsOk());
  EXPECT_TRUE(absl::GetFlag(FLAGS_test_loud));
  ASSERT_THAT(Set({"--notest_loud"}), IsOk());
  EXPECT_FALSE(absl::GetFlag(FLAGS_test_loud));
  ASSERT_THAT(Set({"--test_loud=true"}), IsOk());
  EXPECT_TRUE(absl::GetFlag(FLAGS_test_loud));
}

TEST_F(FlagsTest, ListsGrow) {
  ASSERT_THAT(Set({"--test_names", "a:0", "--test_names=b,c", "--test_names", "d"}), IsOk());
  EXPECT_THAT(absl::GetFlag(FLAGS_test_names), ElementsAre("a:0", "b", "c", "d"));
}

TEST_F(FlagsTest, ErrorsNameTheArgument) {
  EXPECT_THAT(Set({"--nonsense"}), Fails(StatusCode::kInvalidArgument, "unknown flag '--nonsense'"));
  EXPECT_THAT(Set({"--test_other=1"}), Fails(StatusCode::kInvalidArgument, "unknown flag '--test_other=1'"));
  EXPECT_THAT(Set({"--notest_count"}), Fails(StatusCode::kInvalidArgument, "unknown flag '--notest_count'"));
  EXPECT_THAT(Set({"--test_count"}), Fails(StatusCode::kInvalidArgument, "--test_count needs a value"));
  EXPECT_THAT(Set({"--test_count=many"}), Fails(StatusCode::kInvalidArgument, "--test_count cannot be 'many'"));
  EXPECT_THAT(Set({"file"}), Fails(StatusCode::kInvalidArgument, "unexpected argument 'file'"));
  EXPECT_THAT(Set({"-"}), Fails(StatusCode::kInvalidArgument, "unexpected argument '-'"));
  EXPECT_THAT(Set({"--"}), Fails(StatusCode::kInvalidArgument, "'--'"));
  EXPECT_EQ(absl::GetFlag(FLAGS_test_other), 0);
}

TEST_F(FlagsTest, DescriptionsHaveHelpAndDefault) {
  EXPECT_EQ(DescribeFlags({"test_count", "test_names"}),
            "  --test_count     how many (3)\n"
            "  --test_names     which\n");
}

}  // namespace
}  // namespace thalweg::cli
