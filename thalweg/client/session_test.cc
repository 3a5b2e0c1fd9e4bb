#include "thalweg/client/session.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <limits>
#include <thread>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "thalweg/client/session_testlib.h"
#include "thalweg/graph/while.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/nn_ops.h"
#include "thalweg/ops/state_ops.h"
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
    ASSERT_EQ(metadata.partition_graphs_size(), 1);
    EXPECT_THAT(metadata.SerializeAsString(), testing::Not(HasSubstr("some")));
  }
  EXPECT_THAT(session->Run({"call:0"}, {{"where", Tensor::Scalar<std::string>("nowhere")}}),
              Fails(absl::StatusCode::kInvalidArgument, "NOWHERE"));
}

TEST(Session, DenormalNumbersAreZeroWhileAStepRuns) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {-1});
  const Output half = Mul(s, x, Const(s, 0.5f));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  const Tensor smallest = Tensor::Vector<float>({std::numeric_limits<float>::min(), 1});
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({half}, {{x, smallest}}));
  EXPECT_THAT(out[0].flat<float>(), ElementsAre(0, 0.5f));
  EXPECT_GT(smallest.data<float>()[0] * 0.5f, 0) << "the caller's thread is as it was";
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

TEST(Session, VariablesKeepTheirValues) {
  Graph graph;
  const Scope s = graph.root();
  Node* v = s.WithOpName("v").Add("VariableV2", {}, {{"shape", Shape({2})}, {"dtype", kFloat}});
  const Output init = s.Add("Assign", {v->out(), Const(s, {1.f, 2.f})});
  const Output add = s.Add("AssignAdd", {v->out(), Const(s, {10.f, 20.f})});
  const Output read = Identity(s, v->out());
  ASSERT_OK(s.status());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  const absl::Status early = session->Run({read}).status();
  EXPECT_EQ(early.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(early.message()), HasSubstr("Attempting to use uninitialized value v"));
  EXPECT_THAT(std::string(early.message()), HasSubstr("[[{{node Identity}}]]"));
  ASSERT_OK(session->Run({init}).status());
  ASSERT_OK_AND_ASSIGN(const auto before, session->Run({read}));
  ASSERT_OK(session->Run({add}).status());
  ASSERT_OK_AND_ASSIGN(const auto after, session->Run({v->out()}));
  EXPECT_THAT(after[0].flat<float>(), ElementsAre(11, 22));
  // What was read before is a snapshot.
  EXPECT_THAT(before[0].flat<float>(), ElementsAre(1, 2));
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

TEST(Session, ControlDependenciesOrderUpdatesAndReads) {
  Graph graph;
  const Scope s = graph.root();
  Node* v = s.Add("VariableV2", {}, {{"shape", Shape()}, {"dtype", kFloat}});
  const Output init = s.Add("Assign", {v->out(), Const(s, 1.f)});
  const Output add = s.Add("AssignAdd", {v->out(), Const(s, 1.f)});
  const Output read = Identity(s.WithControlDependencies({add}), v->out());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  ASSERT_OK(session->Run({init}).status());
  for (int i = 2; i < 20; ++i) {
    ASSERT_OK_AND_ASSIGN(const auto out, session->Run({read}));
    EXPECT_EQ(out[0].scalar<float>(), i);
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

TEST(Session, AnUnknownOpFailsOnlyTheRunsThatNeedIt) {
  tensorflow::GraphDef def;
  AddConst(def, "c", Tensor::Scalar<float>(1));
  AddDef(def, "strange", "NoSuchOp", {"c"});
  AddTyped(def, "after", "Neg", {"strange"}, kFloat);
  AddTyped(def, "fine", "Neg", {"c"}, kFloat);
  Graph graph;
  ASSERT_OK(graph.Import(def));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({"fine:0"}));
  EXPECT_EQ(out[0].scalar<float>(), -1);
  const absl::Status status = session->Run({"after:0"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'NoSuchOp'"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("'strange'"));
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

// Placement is told without a step, here and on a server, and logged with one.
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

TEST(Session, AnImpossibleDeviceIsAnErrorUnlessPlacementIsSoft) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Neg(s.WithDevice("/device:GPU:0").WithOpName("x"), Const(s, 1.f));
  ASSERT_OK_AND_ASSIGN(auto hard, Session::Create(graph));
  const absl::Status status = hard->Run({x}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Cannot assign a device for operation x"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/device:GPU:0"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/job:localhost/replica:0/task:0/device:CPU:0"));
  ASSERT_OK_AND_ASSIGN(auto soft, Session::Create(graph, {.allow_soft_placement = true}));
  ASSERT_OK(soft->Run({x}).status());
}

TEST(Session, StepStatisticsWhenAsked) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {2});
  const Output y = Neg(s.WithOpName("y"), x);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  RunMetadata metadata;
  const Tensor value = Tensor::Vector<float>({1, 2});
  ASSERT_OK(session->Run({y}, {{x, value}}, {.trace = true, .output_partition_graphs = true}, &metadata).status());
  ASSERT_EQ(metadata.step_stats().dev_stats_size(), 1);
  const auto& stats = metadata.step_stats().dev_stats(0);
  EXPECT_EQ(stats.device(), "/job:localhost/replica:0/task:0/device:CPU:0");
  ASSERT_EQ(stats.node_stats_size(), 1);
  EXPECT_EQ(stats.node_stats(0).node_name(), "y");
  EXPECT_GT(stats.node_stats(0).all_start_micros(), absl::ToUnixMicros(absl::Now()) - 60'000'000);
  EXPECT_EQ(stats.node_stats(0).output(0).tensor_description().allocation_description().requested_bytes(), 8);
  ASSERT_EQ(metadata.partition_graphs_size(), 1);
  RunMetadata without;
  ASSERT_OK(session->Run({y}, {{x, value}}, {}, &without).status());
  EXPECT_EQ(without.ByteSizeLong(), 0);
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

// None of them has the plan, and all want it at once.
TEST(Session, ManyThreadsBringUpOneSignature) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {});
  Output y = x;
  for (int i = 0; i < 50; ++i) y = Add(s, y, Const(s, 1.f));
  constexpr int kThreads = 8;
  for (int round = 0; round < 20; ++round) {
    ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
    std::atomic<int> ready = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (++ready; ready < kThreads;) std::this_thread::yield();
        const auto out = session->Run({y}, {{x, Tensor::Scalar(static_cast<float>(t))}});
        ASSERT_OK(out.status());
        EXPECT_EQ((*out)[0].scalar<float>(), static_cast<float>(t + 50));
      });
    }
    for (std::thread& t : threads) t.join();
  }
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

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(Session, MemoryDoesNotGrowOverManySteps) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // They are slow, and keep what is freed for a while to watch it.
  constexpr int kSteps = 20'000, kGrowth = 300 << 20;
#else
  constexpr int kSteps = 1'000'000, kGrowth = 4 << 20;
#endif
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {4});
  Node* v = s.Add("VariableV2", {}, {{"shape", Shape({4})}, {"dtype", kFloat}});
  const Output init = s.Add("Assign", {v->out(), Const(s, {0.f, 0.f, 0.f, 0.f})});
  const Output add = s.Add("AssignAdd", {v->out(), Mul(s, x, x)});
  const Output sum = ReduceSum(s, Identity(s.WithControlDependencies({add}), v->out()));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  ASSERT_OK(session->Run({init}).status());
  ASSERT_OK_AND_ASSIGN(const auto step, session->Prepare({sum}, {x}));
  const Tensor value = Tensor::Vector<float>({1, 0, 0, 0});
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) ASSERT_OK(step.Run({value}).status());
  };
  run(kSteps / 10);
  const int64_t before = ResidentBytes();
  run(kSteps);
  EXPECT_LT(ResidentBytes() - before, kGrowth);
}

// What else steps may do than compute: each kind of them leaves nothing behind.
TEST(Session, MemoryDoesNotGrowOverStepsOfAnyKind) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr int kSteps = 2'000, kGrowth = 300 << 20;
#else
  constexpr int kSteps = 100'000, kGrowth = 4 << 20;
#endif
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s.WithOpName("x"), kFloat, {4});
  const Output y = Neg(s.WithOpName("y"), x);
  const Output loop = While(
      s, {Const(s, 0), x}, [](const Scope& s, const std::vector<Output>& v) { return Less(s, v[0], Const(s, 3)); },
      [](const Scope& s, const std::vector<Output>& v) {
        return std::vector<Output>{Add(s, v[0], Const(s, 1)), Neg(s, v[1])};
      })[1];
  const Output queue = FIFOQueue(s, {kFloat}, {PartialShape({4})});
  const Output put = QueueEnqueue(s, queue, {x}), take = QueueDequeue(s, queue, {kFloat})[0];
  const Output fails = CheckNumerics(s, Log(s, Neg(s, x)), "no number");
  ASSERT_OK(s.status());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  const Tensor value = Tensor::Vector<float>({1, 2, 3, 4});
  const std::pair<const char*, std::function<absl::Status()>> kinds[] = {
      {"by name",
       [&] {
         return session->Run({"y:0"}, {{"x:0", value}}).status();
       }},
      {"loops",
       [&] {
         return session->Run({loop}, {{x, value}}).status();
       }},
      {"waits with a deadline",
       [&] {
         return session->Run({put, take}, {{x, value}}, {.timeout = absl::Minutes(5)}).status();
       }},
      {"failures",
       [&] {
         const absl::Status status = session->Run({fails}, {{x, value}}).status();
         return absl::IsInvalidArgument(status) ? absl::OkStatus() : absl::InternalError(status.ToString());
       }},
      {"traces",
       [&] {
         RunMetadata metadata;
         return session->Run({y}, {{x, value}}, {.trace = true}, &metadata).status();
       }},
  };
  for (const auto& kind : kinds) {
    SCOPED_TRACE(kind.first);
    const auto run = [&](int steps) {
      for (int i = 0; i < steps; ++i) ASSERT_OK(kind.second());
    };
    run(kSteps / 10);
    const int64_t before = ResidentBytes();
    run(kSteps);
    EXPECT_LT(ResidentBytes() - before, kGrowth);
  }
}

std::vector<std::string> TracedNodes(const RunMetadata& metadata) {
  std::vector<std::string> names;
  for (const auto& device : metadata.step_stats().dev_stats()) {
    for (const auto& node : device.node_stats()) {
      EXPECT_GE(node.all_end_rel_micros(), node.op_start_rel_micros()) << node.node_name();
      names.push_back(node.node_name());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Session, StepStatisticsOfWaitsLoopsAndFailures) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {2});
  const Output queue = FIFOQueue(s.WithOpName("queue"), {kFloat}, {PartialShape({2})});
  const Output put = QueueEnqueue(s.WithOpName("put"), queue, {x});
  const Output taken = QueueDequeue(s.WithOpName("take"), queue, {kFloat})[0];
  const Output after = Neg(s.WithOpName("after"), taken);
  const Output ends = While(
      s, {Const(s, 0), x}, [](const Scope& s, const std::vector<Output>& v) { return Less(s, v[0], Const(s, 3)); },
      [](const Scope& s, const std::vector<Output>& v) {
        return std::vector<Output>{Add(s, v[0], Const(s, 1)), Neg(s.WithOpName("turn"), v[1])};
      })[1];
  const Output first = Neg(s.WithOpName("first"), x);
  const Output bad = CheckNumerics(s.WithOpName("bad"), Log(s.WithOpName("log"), first), "no number");
  ASSERT_OK(s.status());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph));
  const Tensor value = Tensor::Vector<float>({1, 2});
  const auto trace = [&](std::vector<Fetch> fetches) {
    RunMetadata metadata;
    const absl::Status status = session->Run(fetches, {{x, value}}, {.trace = true}, &metadata).status();
    EXPECT_EQ(status.ok(), fetches.back().name != bad.name()) << status;
    return TracedNodes(metadata);
  };
  EXPECT_THAT(trace({put, after}), ElementsAre("after", "put", "queue", "take"));
  const std::vector<std::string> loop = trace({ends});
  EXPECT_EQ(std::count(loop.begin(), loop.end(), "while/turn"), 3);
  EXPECT_THAT(trace({bad}), testing::IsSupersetOf({"first", "log"}));
}

// When the first steps have measured them, branches with much to do run side by
// side. Each node is still there once.
TEST(Session, StepStatisticsOfBranchesThatRunSideBySide) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {256, 256});
  std::vector<Output> ends;
  std::vector<std::string> expected = {"sum"};
  for (const char* branch : {"a", "b"}) {
    Output y = x;
    for (int i = 0; i < 4; ++i) {
      expected.push_back(absl::StrCat(branch, i));
      y = MatMul(s.WithOpName(expected.back()), y, y);
    }
    ends.push_back(branch[0] == 'a' ? y : Neg(s.WithOpName("b"), y));
  }
  expected.push_back("b");
  const Output sum = AddN(s.WithOpName("sum"), ends);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(graph, {.optimizer = {.merge_common_subexpressions = false}}));
  std::sort(expected.begin(), expected.end());
  const Tensor value = Tensor::Zeros(kFloat, {256, 256});
  for (int i = 0; i < 50; ++i) {
    RunMetadata metadata;
    ASSERT_OK(session->Run({sum}, {{x, value}}, {.trace = i % 10 == 9}, &metadata).status());
    if (i % 10 == 9) {
      EXPECT_EQ(TracedNodes(metadata), expected) << i;
    }
  }
}

}  // namespace
}  // namespace thalweg
