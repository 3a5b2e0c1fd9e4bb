// SPDX-License-Identifier: Apache-2.0
#include "thalweg/cluster/cluster_spec.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/cluster/cluster_def.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/proto/config.pb.h"

namespace thalweg {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

TEST(ClusterSpec, FromText) {
  const auto spec = ClusterSpec::Parse("ps|a:1;b:2, worker|0=c:3;5=d:4");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->jobs(), ElementsAre("ps", "worker"));
  EXPECT_EQ(*spec->Address({"ps", 1}), "b:2");
  EXPECT_EQ(*spec->Address({"worker", 5}), "d:4");
  EXPECT_THAT(spec->Address({"worker", 1}), Fails(StatusCode::kInvalidArgument, "it has tasks: 0, 5"));
  EXPECT_THAT(spec->Address({"gpu", 0}), Fails(StatusCode::kInvalidArgument, "it has jobs: ps, worker"));
  EXPECT_EQ(spec->num_tasks("worker"), 2);
}

TEST(ClusterSpec, ThroughAMessage) {
  const auto spec = ClusterSpec::Parse("ps|a:1,worker|7=c:3");
  ASSERT_TRUE(spec.ok());
  const auto again = ClusterSpecFromProto(ClusterSpecToProto(*spec));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->tasks(), spec->tasks());
  EXPECT_EQ(TaskId({"worker", 7}).ToString(), "/job:worker/replica:0/task:7");
}

TEST(ClusterSpec, BadInput) {
  for (const char* text : {"ps", "ps|", "|a:1", "ps|a", "ps|a:x", "ps|a:99999", "ps|:1", "ps|x=a:1", "ps|0=a:1;0=b:2",
                           "ps|-1=a:1", "ps|a:1,ps|b:2", "ps|a:1;worker|b:2", "ps|a b:1", "ps|grpc://a:1"}) {
    EXPECT_EQ(ClusterSpec::Parse(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
  tensorflow::ClusterDef def;
  (*def.add_job()->mutable_tasks())[0] = "a:1";
  EXPECT_THAT(ClusterSpecFromProto(def), Fails(StatusCode::kInvalidArgument, "no name"));
}

}  // namespace
}  // namespace thalweg
