// SPDX-License-Identifier: Apache-2.0
#include "thalweg/client/session.h"

#include <algorithm>
#include <thread>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/proto/config.pb.h"
#include "thalweg/runtime/session_testlib.h"
#include "thalweg/server/server.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Session, FetchesAConstant) {
  Graph graph;
  const Scope s = graph.root();
  const Output hello = Const(s, std::string("Hello, Thalweg!"));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({hello}));
  EXPECT_EQ(out[0].scalar<std::string>(), "Hello, Thalweg!");
}

TEST(Session, FeedsAndFetches) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {-1, 2});
  const Output w = Const(s, {{1.f, 2.f}, {3.f, 4.f}});
  const Output y = MatMul(s, x, w);
  const Output z = Add(s, y, y);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({z, y}, {{x, Tensor::Of<float>({1, 2}, {1, 1})}}));
  EXPECT_THAT(out[0].flat<float>(), ElementsAre(8, 12));
  EXPECT_THAT(out[1].flat<float>(), ElementsAre(4, 6));
  // An inner tensor may be fed too: then x is not needed.
  ASSERT_OK_AND_ASSIGN(const auto inner, session->Run({z}, {{y, Tensor::Of<float>({1, 2}, {5, 6})}}));
  EXPECT_THAT(inner[0].flat<float>(), ElementsAre(10, 12));
}

TEST(Session, AVariableIsInOnePlaceForAllSteps) {
  Graph graph;
  const Scope s = graph.root();
  Node* v = s.Add("VarHandleOp", {}, {{"shape", Shape()}, {"dtype", kFloat}});
  const Output init = s.Add("AssignVariableOp", {v->out(), Const(s, 1.f)});
  const Output update = s.WithDevice("/device:CPU:1").Add("AssignAddVariableOp", {v->out(), Const(s, 1.f)});
  const Output read = s.Add("ReadVariableOp", {v->out()}, {{"dtype", kFloat}});
  const Output random = s.Add("RandomUniform", {Const(s, {2})}, {{"dtype", kFloat}, {"seed", 1}});
  const Output near = Neg(s.WithDevice("/device:CPU:1"), random);
  SetAttr(random.node->mutable_def(), "_class", std::vector<std::string>{absl::StrCat("loc:@", near.node->name())});
  const Output lost = Neg(s.WithDevice("/device:CPU:7"), Const(s, 1.f));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.cpu_devices = 2}));
  ASSERT_OK(session->Run({init}).status());
  ASSERT_OK(session->Run({update}).status());
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({read}));
  EXPECT_EQ(out[0].scalar<float>(), 2);
  EXPECT_THAT(session->Run({lost}), Fails(absl::StatusCode::kInvalidArgument, "CPU:7"));
  ASSERT_OK_AND_ASSIGN(const auto placed, session->ExplainPlacement({init}));
  for (const Placed& p : placed) {
    if (p.node == v->name()) {
      EXPECT_THAT(p.device, HasSubstr("CPU:1"));
    }
  }
  // A sequence goes on, with or without what the node is near.
  ASSERT_OK_AND_ASSIGN(const auto first, session->Run({random}));
  ASSERT_OK_AND_ASSIGN(const auto second, session->Run({random, near}));
  EXPECT_NE(first[0].flat<float>()[0], second[0].flat<float>()[0]);
}

// A function with a variable `r`, called by `c`, and another op of the name that
// this one has in a step.
TEST(Session, ANodeOfAFunctionIsNotTakenForAnotherOfItsName) {
  Graph graph;
  tensorflow::GraphDef def;
  AddConst(def, "shape", Tensor::Vector<int32_t>({2}));
  AddConst(def, "x", Tensor::Scalar(3.f));
  tensorflow::NodeDef* random = AddDef(def, "c/_call/r", "RandomUniform", {"shape"});
  SetAttr(*random, "dtype", kFloat);
  SetAttr(*random, "T", kInt32);
  AddDef(def, "c", "F", {"x"});
  AddTyped(def, "both", "Sub", {"c", "c/_call/r"}, kFloat);
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
      function { signature { name: 'F' input_arg { name: 'x' type: DT_FLOAT } output_arg { name: 'y' type: DT_FLOAT } }
        node_def { name: 'r' op: 'VarHandleOp' attr { key: 'dtype' value { type: DT_FLOAT } }
                   attr { key: 'shape' value { shape {} } } attr { key: 'shared_name' value { s: 'r' } } }
        node_def { name: 'set' op: 'AssignVariableOp' input: 'r:resource:0' input: 'x'
                   attr { key: 'dtype' value { type: DT_FLOAT } } }
        node_def { name: 'read' op: 'ReadVariableOp' input: 'r:resource:0' input: '^set'
                   attr { key: 'dtype' value { type: DT_FLOAT } } }
        ret { key: 'y' value: 'read:value:0' } })",
                                                            def.mutable_library()));
  ASSERT_OK(graph.Import(def));
  ASSERT_OK_AND_ASSIGN(auto server, Server::StartLocal());
  for (const std::string& target : {std::string(), server->target()}) {
    ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = target}));
    ASSERT_OK(session->Run({"c/_call/r:0"}).status());
    ASSERT_OK_AND_ASSIGN(const auto out, session->Run({"c:0"}));
    EXPECT_EQ(out[0].scalar<float>(), 3);
    EXPECT_THAT(session->Run({"both:0"}), Fails(absl::StatusCode::kInvalidArgument, "'c/_call/r'"));
  }
}

// The text of one feed decides where the call is; that of another is a value.
TEST(Session, OnlyTextsThatDecideArePartOfWhatIsCompiled) {
  Graph graph;
  tensorflow::GraphDef def;
  AddConst(def, "x", Tensor::Scalar(3.f));
  for (const char* name : {"where", "name"}) SetAttr(*AddDef(def, name, "Placeholder", {}), "dtype", kString);
  tensorflow::NodeDef* call = AddDef(def, "call", "RemoteCall", {"where", "x"});
  SetAttr(*call, "Tin", std::vector<DType>{kFloat});
  SetAttr(*call, "Tout", std::vector<DType>{kFloat});
  (*call->mutable_attr())["f"].mutable_func()->set_name("F");
  SetAttr(*AddDef(def, "twice", "StringJoin", {"name", "name"}), "N", 2);
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
      function { signature { name: 'F' input_arg { name: 'x' type: DT_FLOAT } output_arg { name: 'y' type: DT_FLOAT } }
        node_def { name: 'neg' op: 'Neg' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } }
        ret { key: 'y' value: 'neg:y:0' } })",
                                                            def.mutable_library()));
  ASSERT_OK(graph.Import(def));
  ASSERT_OK_AND_ASSIGN(auto server, Server::StartLocal());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = server->target()}));
  for (const std::string name : {"some name", "some other name"}) {
    RunMetadata metadata;
    ASSERT_OK_AND_ASSIGN(const auto out, session->Run({"call:0", "twice:0"},
                                                      {{"name", Tensor::Scalar<std::string>(name)},
                                                       {"where", Tensor::Scalar<std::string>("/cpu:0")}},
                                                      {.output_partition_graphs = true}, &metadata));
    EXPECT_EQ(out[0].scalar<float>(), -3);
    EXPECT_EQ(out[1].scalar<std::string>(), name + name);
    ASSERT_EQ(metadata.proto().partition_graphs_size(), 1);
    EXPECT_THAT(metadata.SerializeAsString(), testing::Not(HasSubstr("some")));
  }
  EXPECT_THAT(session->Run({"call:0"}, {{"where", Tensor::Scalar<std::string>("nowhere")}}),
              Fails(absl::StatusCode::kInvalidArgument, "NOWHERE"));
}

TEST(Session, TheGraphMayGrow) {
  Graph graph;
  const Scope s = graph.root();
  const Output a = Const(s, 2.f);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  ASSERT_OK(session->Run({a}).status());
  const Output b = Mul(s, a, a);
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({b}));
  EXPECT_EQ(out[0].scalar<float>(), 4);
}

TEST(Session, TargetsRunAndYieldNothing) {
  Graph graph;
  const Scope s = graph.root();
  Node* v = s.Add("VariableV2", {}, {{"shape", Shape()}, {"dtype", kFloat}});
  const Output init = s.Add("Assign", {v->out(), Const(s, 1.f)});
  const Output group = NoOp(s.WithControlDependencies({init}));
  const Output c = Const(s, 5.f);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({group, c}));
  EXPECT_FALSE(out[0].has_value());
  EXPECT_EQ(out[1].scalar<float>(), 5);
  ASSERT_OK(session->Run({Identity(s, v->out())}).status());
}

TEST(Session, ANodeWithOutputsMayRunForItsEffect) {
  Graph graph;
  const Scope s = graph.root();
  Node* v = s.Add("VariableV2", {}, {{"shape", Shape()}, {"dtype", kFloat}});
  const Output init = s.Add("Assign", {v->out(), Const(s, 1.f)});
  const Output add = s.WithOpName("add").Add("AssignAdd", {v->out(), Const(s, 1.f)});
  ASSERT_OK_AND_ASSIGN(auto server, Server::StartLocal());
  for (const std::string& target : {std::string(), server->target()}) {
    ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = target}));
    ASSERT_OK(session->Run({Fetch::Target(init)}).status());
    ASSERT_OK_AND_ASSIGN(const auto out, session->Run({Fetch::Target(add), Const(s, 5.f)}));
    ASSERT_EQ(out.size(), 2);
    EXPECT_FALSE(out[0].has_value());
    EXPECT_EQ(out[1].scalar<float>(), 5);
    ASSERT_OK(session->Run({Fetch::Target("add")}).status());
    ASSERT_OK_AND_ASSIGN(const auto value, session->Run({v->out()}));
    EXPECT_EQ(value[0].scalar<float>(), 3);
    EXPECT_THAT(session->Run({Fetch::Target("nowhere")}), Fails(absl::StatusCode::kNotFound, "nowhere"));
    EXPECT_THAT(session->Run({Fetch::Target(Output())}), Fails(absl::StatusCode::kInvalidArgument, "missing"));
  }
}

TEST(Session, BadSignatures) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s.WithOpName("x"), kFloat, {-1, 784});
  const Output y = Neg(s.WithOpName("y"), x);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  const auto error = [&](const std::vector<Fetch>& fetches, const std::vector<Feed>& feeds) {
    return session->Run(fetches, feeds).status();
  };
  const Tensor good(kFloat, {1, 784});
  EXPECT_EQ(error({}, {}), absl::InvalidArgumentError("Must specify at least one target to fetch or execute."));
  EXPECT_EQ(error({"zz:0"}, {}), absl::NotFoundError("FetchOutputs node zz:0: not found"));
  EXPECT_EQ(error({"y:3"}, {{x, good}}),
            absl::InvalidArgumentError("FetchOutputs y:3: output index too large, must be < 1"));
  EXPECT_EQ(error({y}, {{"nonode:0", good}}), absl::NotFoundError("FeedInputs: unable to find feed output nonode:0"));
  EXPECT_EQ(error({y}, {{x, good}, {x, good}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(error({y}, {{x, Tensor(kInt32, {1, 784})}}),
            absl::InvalidArgumentError("Feed 'x:0' is of type int32, expected float"));
  EXPECT_EQ(error({y}, {{x, Tensor(kFloat, {784})}}),
            absl::InvalidArgumentError("Feed 'x:0' has shape [784], expected [?,784]"));
  EXPECT_THAT(std::string(error({y}, {}).message()),
              HasSubstr("You must feed a value for placeholder tensor 'x' with dtype float"));
  ASSERT_OK(error({y}, {{x, good}}));
}

TEST(Session, AGraphWithAnErrorDoesNotStart) {
  Graph graph;
  const Scope s = graph.root();
  MatMul(s.WithOpName("bad"), Const(s, {1.f}), Const(s, {{1.f}}));
  const absl::Status status = Session::Create(graph).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("bad"));
}

TEST(Session, NoMachineHasSoManyThreads) {
  Graph graph;
  for (const int threads : {-1, 1'000'000}) {
    EXPECT_THAT(Session::Create(graph, {.threads = threads}),
                Fails(absl::StatusCode::kInvalidArgument, absl::StrCat("threads is ", threads)));
    EXPECT_THAT(Server::StartLocal({.threads = threads}),
                Fails(absl::StatusCode::kInvalidArgument, absl::StrCat("threads is ", threads)));
  }
  EXPECT_THAT(Session::Create(graph, {.cpu_devices = 0}),
              Fails(absl::StatusCode::kInvalidArgument, "cpu_devices is 0"));
}

TEST(Session, SeveralDevices) {
  Graph graph;
  const Scope s = graph.root();
  const Output a = Const(s.WithDevice("/cpu:1"), 1.f);
  const Output b = Neg(s.WithDevice("/device:CPU:1").WithOpName("b"), a);
  const Output c = Neg(s.WithOpName("c"), b);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.cpu_devices = 2}));
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({c}));
  EXPECT_EQ(out[0].scalar<float>(), 1);
  ASSERT_OK_AND_ASSIGN(const auto placed, session->ExplainPlacement({c}));
  const auto find = [&](const std::string& name) {
    return *std::find_if(placed.begin(), placed.end(), [&](const Placed& p) { return p.node == name; });
  };
  EXPECT_EQ(find("b").device, "/job:localhost/replica:0/task:0/device:CPU:1");
  EXPECT_THAT(find("b").reason, HasSubstr("asked for /device:CPU:1"));
  EXPECT_EQ(find("c").device, "/job:localhost/replica:0/task:0/device:CPU:0");
  EXPECT_EQ(find("c").reason, "default");
}

Mutex log_mutex;
std::vector<std::string> log_lines ABSL_GUARDED_BY(log_mutex);

// Placement is reported without a step, in this process and on a server, and logged with one.
TEST(Session, PlacementIsExplainedAndLogged) {
  Graph graph;
  const Scope s = graph.root();
  Node* v = s.WithOpName("v").WithDevice("/cpu:0").Add("VariableV2", {}, {{"shape", Shape()}, {"dtype", kFloat}});
  const Output init = s.Add("Assign", {v->out(), Const(s, 1.f)});
  const Output add = s.WithOpName("add").Add("AssignAdd", {v->out(), Const(s, 1.f)});
  NoOp(s.WithOpName("train").WithControlDependencies({add}));
  ASSERT_OK_AND_ASSIGN(auto server, Server::StartLocal());
  for (const std::string& target : {std::string(), server->target()}) {
    ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.target = target, .log_device_placement = true}));
    ASSERT_OK(session->Run({init}).status());
    ASSERT_OK_AND_ASSIGN(const auto placed, session->ExplainPlacement({"train"}));
    const std::string cpu =
        absl::StrCat(target.empty() ? "/job:localhost" : "/job:local", "/replica:0/task:0/device:CPU:0");
    int found = 0;
    for (const Placed& p : placed) {
      EXPECT_EQ(p.device, cpu) << p.node;
      EXPECT_NE(p.reason, "") << p.node;
      if (p.node == "v") {
        EXPECT_THAT(p.reason, HasSubstr("asked for /device:CPU:0"));
      }
      found += p.node == "v" || p.node == "add" || p.node == "train";
    }
    EXPECT_EQ(found, 3);
    ASSERT_OK_AND_ASSIGN(const auto value, session->Run({v->out()}));
    EXPECT_EQ(value[0].scalar<float>(), 1) << "explaining ran the step";

    SetLogSink([](LogLevel, const std::string& line) {
      MutexLock lock(&log_mutex);
      log_lines.push_back(line);
    });
    const absl::Status status = session->Run({"train"}).status();
    SetLogSink(nullptr);
    ASSERT_OK(status);
    MutexLock lock(&log_mutex);
    EXPECT_THAT(log_lines,
                testing::Contains(HasSubstr(absl::StrCat("v: (VariableV2): ", cpu, " (asked for /device:CPU:0)"))));
    ASSERT_OK(session->Close());
    EXPECT_THAT(session->ExplainPlacement({"train"}), Fails(absl::StatusCode::kFailedPrecondition, "closed"));
    EXPECT_THAT(session->ListDevices(), Fails(absl::StatusCode::kFailedPrecondition, "closed"));
  }
}

TEST(Session, CallablesAndManyThreads) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {});
  const Output y = Add(s, Mul(s, x, x), Const(s, 1.f));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  ASSERT_OK_AND_ASSIGN(const Session::Callable callable, session->Prepare({y}, {x}));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const float v = static_cast<float>(t * 100 + i % 100);
        const auto out = callable.Run({Tensor::Scalar(v)});
        ASSERT_OK(out.status());
        ASSERT_EQ((*out)[0].scalar<float>(), v * v + 1);
        const auto same = session->Run({y}, {{x, Tensor::Scalar(v)}});
        ASSERT_EQ((*same)[0].scalar<float>(), v * v + 1);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(callable.Run({}).status().code(), absl::StatusCode::kInvalidArgument);
}

// A warm step takes no memory from the system.
TEST(Session, AWarmStepAsksTheSystemForNoMemory) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {-1, 64});
  Output y = x;
  for (int i = 0; i < 10; ++i) y = Relu(s, MatMul(s, y, Const(s, Tensor::Zeros(kFloat, {64, 64}))));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  ASSERT_OK_AND_ASSIGN(const auto callable, session->Prepare({y}, {x}));
  const Tensor value = Tensor::Zeros(kFloat, {32, 64});
  for (int i = 0; i < 10; ++i) ASSERT_OK(callable.Run({value}).status());
  const AllocatorStats before = HostAllocator().Stats();
  for (int i = 0; i < 1000; ++i) ASSERT_OK(callable.Run({value}).status());
  const AllocatorStats after = HostAllocator().Stats();
  EXPECT_EQ(after.system_calls, before.system_calls);
  EXPECT_EQ(after.bytes_in_use, before.bytes_in_use);
  EXPECT_GT(after.allocations, before.allocations);
}

}  // namespace
}  // namespace thalweg
