// SPDX-License-Identifier: Apache-2.0
#include "thalweg/server/server.h"

#include <atomic>
#include <cmath>
#include <thread>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/client/cluster_testlib.h"
#include "thalweg/client/session.h"
#include "thalweg/graph/attr.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/proto/config.pb.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ServerTest, Hello) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::StartLocal());
  EXPECT_THAT(server->target(), testing::StartsWith("grpc://localhost:"));
  Graph graph;
  const Output hello = Const(graph.root(), Tensor::Scalar<std::string>("Hello, distributed Thalweg!"));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = server->target()}));
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({hello}));
  EXPECT_EQ(out[0].scalar<std::string>(), "Hello, distributed Thalweg!");
  ASSERT_OK_AND_ASSIGN(const auto devices, session->ListDevices());
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].name, "/job:local/replica:0/task:0/device:CPU:0");
}

TEST(ServerTest, StartsFromAServerDef) {
  tensorflow::ServerDef def;
  def.set_protocol("grpc");
  def.set_job_name("worker");
  def.set_task_index(3);
  auto* const job = def.mutable_cluster()->add_job();
  job->set_name("worker");
  (*job->mutable_tasks())[3] = "localhost:0";
  (*def.mutable_default_session_config()->mutable_device_count())["CPU"] = 2;
  ASSERT_OK_AND_ASSIGN(auto server, Server::StartFromServerDef(def.SerializeAsString()));
  EXPECT_EQ(server->task().ToString(), "/job:worker/replica:0/task:3");
  Graph graph;
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = server->target()}));
  ASSERT_OK_AND_ASSIGN(const auto devices, session->ListDevices());
  EXPECT_EQ(devices.size(), 2u);

  EXPECT_THAT(Server::StartFromServerDef("\xff"), Fails(absl::StatusCode::kInvalidArgument, "not a ServerDef"));
  def.set_protocol("http");
  EXPECT_THAT(Server::StartFromServerDef(def.SerializeAsString()),
              Fails(absl::StatusCode::kInvalidArgument, "expected \"grpc\""));
  def.set_protocol("grpc");
  *def.mutable_cluster()->add_job() = *job;
  EXPECT_THAT(Server::StartFromServerDef(def.SerializeAsString()),
              Fails(absl::StatusCode::kInvalidArgument, "is given twice"));
}

TEST(ServerTest, FeedsOfWhatCannotBeComputed) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::StartLocal());
  tensorflow::GraphDef def;
  const auto add = [&](const char* name, const char* op, const char* input) {
    tensorflow::NodeDef& node = *def.add_node();
    node.set_name(name);
    node.set_op(op);
    if (*input != '\0') node.add_input(input);
    return &node;
  };
  add("unknown", "NobodyKnowsThisOp", "");
  SetAttr(*add("y", "Neg", "unknown"), "T", kFloat);
  add("after", "NoOp", "^unknown");
  Graph graph;
  ASSERT_OK(graph.Import(def));
  const Output v = RefVariable(graph.root().WithOpName("v"), kFloat, {});
  Assign(graph.root().WithOpName("assign"), v, Scalar(graph.root(), 1));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = server->target()}));
  const Tensor two = Tensor::Scalar<float>(2);
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({"y:0", Fetch::Target("after")}, {{"unknown:0", two}}));
  EXPECT_EQ(out[0].scalar<float>(), -2);
  ASSERT_OK(session->Run({Fetch::Target("after")}, {{"unknown:3", two}}).status());
  EXPECT_THAT(session->Run({"y:0"}), Fails(absl::StatusCode::kNotFound, "NobodyKnowsThisOp"));
  EXPECT_THAT(session->Run({Fetch::Target("assign")}, {{"v:0", two}}),
              Fails(absl::StatusCode::kInvalidArgument, "incompatible with expected float_ref"));
}

TEST(ServerTest, BadAddresses) {
  ClusterSpec spec;
  EXPECT_THAT(spec.AddTask({"ps", 0}, "localhost"), Fails(absl::StatusCode::kInvalidArgument, "port"));
  ASSERT_OK_AND_ASSIGN(auto server, Server::StartLocal());
  ASSERT_OK(spec.AddTask({"ps", 0}, absl::StrCat("localhost:", server->port())));
  EXPECT_THAT(Server::Start(spec, {"ps", 0}), Fails(absl::StatusCode::kUnknown, "in use"));
  EXPECT_THAT(Server::Start(spec, {"ps", 1}), Fails(absl::StatusCode::kInvalidArgument, "Task 1 was not defined"));
  EXPECT_THAT(Server::Start(spec, {"work", 0}), Fails(absl::StatusCode::kInvalidArgument, "\"work\""));
  Graph graph;
  EXPECT_THAT(Session::Create(graph, {.target = "localhost:1"}), Fails(absl::StatusCode::kInvalidArgument, "grpc://"));
  EXPECT_THAT(Session::Create(graph, {.target = "grpc://localhost"}),
              Fails(absl::StatusCode::kInvalidArgument, "port"));
}

// Clients may ask for names that are not nodes.
TEST(ServerTest, ANameIsNotTakenForSeveral) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::StartLocal());
  Graph graph;
  const Scope s = graph.root();
  Neg(s.WithOpName("a"), Scalar(s, 1));
  Neg(s.WithOpName("b"), Scalar(s, 2));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = server->target()}));
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({"a:0", "b:0"}));
  EXPECT_EQ(out[1].scalar<float>(), -2);
  EXPECT_THAT(session->Run({"a:0,b:0"}), Fails(absl::StatusCode::kNotFound, "a:0,b:0"));
}

TEST(ServerTest, ArgumentsOfAUserAreNamed) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::StartLocal());
  Graph graph;
  const Scope s = graph.root();
  const Output y = Neg(s, s.WithOpName("mine").Add("_Arg", {}, {{"T", kFloat}, {"index", 7}}));
  const Output result = s.WithOpName("result").Add("_Retval", {Scalar(s, 1)}, {{"index", 7}});
  ASSERT_OK(s.status());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = server->target()}));
  EXPECT_THAT(session->Run({y}), Fails(absl::StatusCode::kInvalidArgument, "'mine'"));
  EXPECT_THAT(session->Run({result}), Fails(absl::StatusCode::kInvalidArgument, "'result'"));
}

TEST(ServerTest, StopFreesThePort) {
  TestCluster cluster({{"ps", 1}});
  for (int i = 0; i < 3; ++i) {
    cluster.Stop(kPs0);
    cluster.Start(kPs0);
  }
  Graph graph;
  const Output x = Scalar(graph.root(), 1);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = cluster.target(kPs0)}));
  ASSERT_OK(session->Run({x}).status());
}

TEST(ServerTest, JoinReturnsAfterStop) {
  ASSERT_OK_AND_ASSIGN(auto server, Server::StartLocal());
  std::thread join([&] { EXPECT_THAT(server->Join(), IsOk()); });
  server->Stop();
  join.join();
}

}  // namespace
}  // namespace thalweg
