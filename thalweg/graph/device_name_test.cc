// SPDX-License-Identifier: Apache-2.0
#include "thalweg/graph/device_name.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/graph_testlib.h"

namespace thalweg {
namespace {

using absl::StatusCode;

DeviceName Parse(absl::string_view text) {
  const absl::StatusOr<DeviceName> name = DeviceName::Parse(text);
  EXPECT_THAT(name, IsOk());
  return name.value_or(DeviceName());
}

TEST(DeviceName, FullNamesHaveAllParts) {
  const DeviceName name = Parse("/job:ps/replica:2/task:1/device:CPU:3");
  EXPECT_EQ(name.job, "ps");
  EXPECT_EQ(name.replica, 2);
  EXPECT_EQ(name.task, 1);
  EXPECT_EQ(name.type, "CPU");
  EXPECT_EQ(name.id, 3);
  EXPECT_TRUE(name.is_full());
  EXPECT_EQ(name.ToString(), "/job:ps/replica:2/task:1/device:CPU:3");
}

TEST(DeviceName, PartsMayBeMissingOrInAnyOrder) {
  EXPECT_EQ(Parse("/job:ps").ToString(), "/job:ps");
  EXPECT_EQ(Parse("/task:1/job:worker").ToString(), "/job:worker/task:1");
  EXPECT_EQ(Parse("job:ps/task:0").ToString(), "/job:ps/task:0");
  EXPECT_FALSE(Parse("/job:ps/task:1/device:CPU:0").is_full());
  EXPECT_TRUE(Parse("").empty());
  EXPECT_TRUE(Parse("/").empty());
  EXPECT_FALSE(Parse("/task:0").empty());
}

TEST(DeviceName, TheFormsOfTheDeviceAreOne) {
  for (const char* text : {"/device:CPU:0", "/device:cpu:0", "/cpu:0", "/CPU:0", "cpu:0", "CPU:0"}) {
    EXPECT_EQ(Parse(text).ToString(), "/device:CPU:0") << text;
  }
  EXPECT_EQ(Parse("/device:GPU").ToString(), "/device:GPU:*");
  EXPECT_EQ(Parse("/gpu").ToString(), "/device:GPU:*");
  EXPECT_EQ(Parse("/job:Worker/cpu:1").ToString(), "/job:Worker/device:CPU:1");
}

TEST(DeviceName, WildcardsAreWhatIsNotSet) {
  EXPECT_EQ(Parse("/job:*/replica:*/task:*/device:*:*"), DeviceName());
  EXPECT_EQ(Parse("/device:CPU:*").ToString(), "/device:CPU:*");
  EXPECT_EQ(Parse("/device:*:1").ToString(), "/device:*:1");
  EXPECT_EQ(Parse("/cpu:*").id, std::nullopt);
}

TEST(DeviceName, MalformedOnesAreNamedInTheError) {
  for (const char* text : {"/job",
                           "/job:",
                           "/job:1a",
                           "/job:a b",
                           "/job:ps:1",
                           "/task",
                           "/task:x",
                           "/task:-1",
                           "/task:+1",
                           "/task:",
                           "/replica:99999999999",
                           "/device",
                           "/device:",
                           "/device:CPU:x",
                           "/device:CPU:0:1",
                           "/device:1:0",
                           "/cpu:x",
                           "/cpu:0:1",
                           "//",
                           "/job:ps/",
                           "/job:ps//task:0",
                           "/c pu:0",
                           " /cpu:0",
                           "/1",
                           "::"}) {
    EXPECT_THAT(DeviceName::Parse(text), Fails(StatusCode::kInvalidArgument, absl::StrCat("'", text, "'"))) << text;
  }
}

TEST(DeviceName, MatchesWhatHasAtLeastItsParts) {
  const DeviceName full = Parse("/job:ps/replica:0/task:1/device:CPU:0");
  for (const char* text :
       {"", "/job:ps", "/task:1", "/cpu:0", "/device:CPU:*", "/job:ps/replica:0/task:1/device:CPU:0"}) {
    EXPECT_TRUE(Parse(text).Matches(full)) << text;
  }
  for (const char* text : {"/job:worker", "/job:PS", "/replica:1", "/task:0", "/gpu:0", "/cpu:1"}) {
    EXPECT_FALSE(Parse(text).Matches(full)) << text;
  }
  EXPECT_FALSE(full.Matches(Parse("/job:ps")));
}

TEST(DeviceName, InnerPartsWin) {
  EXPECT_EQ(Parse("/job:ps/task:1/cpu:0").MergedWith(Parse("/task:2/device:GPU:*")).ToString(),
            "/job:ps/task:2/device:GPU:0");
  EXPECT_EQ(Parse("/job:ps").MergedWith(Parse("/job:worker/replica:3")).ToString(), "/job:worker/replica:3");
  EXPECT_EQ(Parse("/cpu:1").MergedWith(Parse("")).ToString(), "/device:CPU:1");
}

TEST(DeviceName, IntersectionsHaveThePartsOfBoth) {
  EXPECT_EQ(DeviceName::Intersect(Parse("/job:ps/cpu:0"), Parse("/task:1/device:CPU:*"))->ToString(),
            "/job:ps/task:1/device:CPU:0");
  const auto contradict = [](const char* a, const char* b) { return DeviceName::Intersect(Parse(a), Parse(b)); };
  EXPECT_THAT(contradict("/job:ps", "/job:worker"), Fails(StatusCode::kInvalidArgument, "'/job:ps' and '/job:worker'"));
  EXPECT_THAT(contradict("/replica:0", "/replica:1"), Fails(StatusCode::kInvalidArgument, "contradict"));
  EXPECT_THAT(contradict("/task:0", "/task:1"), Fails(StatusCode::kInvalidArgument, "contradict"));
  EXPECT_THAT(contradict("/cpu:0", "/gpu:0"), Fails(StatusCode::kInvalidArgument, "contradict"));
  EXPECT_THAT(contradict("/cpu:0", "/cpu:1"), Fails(StatusCode::kInvalidArgument, "contradict"));
}

TEST(DeviceName, TheTaskIsTheNameWithoutTheDevice) {
  EXPECT_EQ(TaskOf(Parse("/job:ps/replica:0/task:1/device:CPU:0")), "/job:ps/replica:0/task:1");
}

}  // namespace
}  // namespace thalweg
