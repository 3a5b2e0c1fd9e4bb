// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/direct_session.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <limits>
#include <thread>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/graph/while.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/runtime/session_testlib.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(DirectSession, DenormalNumbersAreZeroWhileAStepRuns) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {-1});
  const Output half = Mul(s, x, Const(s, 0.5f));
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
  const Tensor smallest = Tensor::Vector<float>({std::numeric_limits<float>::min(), 1});
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({half}, {{x, smallest}}));
  EXPECT_THAT(out[0].flat<float>(), ElementsAre(0, 0.5f));
  EXPECT_GT(smallest.data<float>()[0] * 0.5f, 0) << "the caller's thread is as it was";
}

// Throws in ComputeAsync(), or later on another thread.
class ThrowingKernel : public AsyncKernel {
  void ComputeAsync(KernelContext& c, Done done) override {
    if (!c.input(0).scalar<bool>()) throw std::bad_alloc();
    c.step().pool->Schedule([done = std::move(done)] { throw std::bad_alloc(); });
  }
};
const OpRegistration kThrows =
    Op("TestThrows").Input("later: bool").Output("y: bool").Stateful().Kernel<ThrowingKernel>();

TEST(DirectSession, AnExceptionOfANodeThatWaitsEndsTheStep) {
  Graph graph;
  const Scope s = graph.root();
  const Output later = Placeholder(s, kBool, {});
  const Output throws = s.Add("TestThrows", {later});
  ASSERT_OK(s.status());
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
  for (const bool value : {false, true}) {
    const absl::Status status = session->Run({throws}, {{later, Tensor::Scalar(value)}}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("{{node TestThrows}}"));
  }
}

TEST(DirectSession, VariablesKeepTheirValues) {
  Graph graph;
  const Scope s = graph.root();
  Node* v = s.WithOpName("v").Add("VariableV2", {}, {{"shape", Shape({2})}, {"dtype", kFloat}});
  const Output init = s.Add("Assign", {v->out(), Const(s, {1.f, 2.f})});
  const Output add = s.Add("AssignAdd", {v->out(), Const(s, {10.f, 20.f})});
  const Output read = Identity(s, v->out());
  ASSERT_OK(s.status());
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
  const absl::Status early = session->Run({read}).status();
  EXPECT_EQ(early.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(early.message()), HasSubstr("Attempting to use uninitialized value v"));
  EXPECT_THAT(std::string(early.message()), HasSubstr("[[{{node Identity}}]]"));
  ASSERT_OK(session->Run({init}).status());
  ASSERT_OK_AND_ASSIGN(const auto before, session->Run({read}));
  ASSERT_OK(session->Run({add}).status());
  ASSERT_OK_AND_ASSIGN(const auto after, session->Run({v->out()}));
  EXPECT_THAT(after[0].flat<float>(), ElementsAre(11, 22));
  // Values that were read before are snapshots.
  EXPECT_THAT(before[0].flat<float>(), ElementsAre(1, 2));
}

TEST(DirectSession, ControlDependenciesOrderUpdatesAndReads) {
  Graph graph;
  const Scope s = graph.root();
  Node* v = s.Add("VariableV2", {}, {{"shape", Shape()}, {"dtype", kFloat}});
  const Output init = s.Add("Assign", {v->out(), Const(s, 1.f)});
  const Output add = s.Add("AssignAdd", {v->out(), Const(s, 1.f)});
  const Output read = Identity(s.WithControlDependencies({add}), v->out());
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
  ASSERT_OK(session->Run({init}).status());
  for (int i = 2; i < 20; ++i) {
    ASSERT_OK_AND_ASSIGN(const auto out, session->Run({read}));
    EXPECT_EQ(out[0].scalar<float>(), i);
  }
}

TEST(DirectSession, AnUnknownOpFailsOnlyTheRunsThatNeedIt) {
  tensorflow::GraphDef def;
  AddConst(def, "c", Tensor::Scalar<float>(1));
  AddDef(def, "strange", "NoSuchOp", {"c"});
  AddTyped(def, "after", "Neg", {"strange"}, kFloat);
  AddTyped(def, "fine", "Neg", {"c"}, kFloat);
  Graph graph;
  ASSERT_OK(graph.Import(def));
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
  ASSERT_OK_AND_ASSIGN(const auto out, session->Run({"fine:0"}));
  EXPECT_EQ(out[0].scalar<float>(), -1);
  const absl::Status status = session->Run({"after:0"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'NoSuchOp'"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("'strange'"));
}

TEST(DirectSession, AnImpossibleDeviceIsAnErrorUnlessPlacementIsSoft) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Neg(s.WithDevice("/device:GPU:0").WithOpName("x"), Const(s, 1.f));
  ASSERT_OK_AND_ASSIGN(auto hard, TestSession::Create(graph));
  const absl::Status status = hard->Run({x}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Cannot assign a device for operation x"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/device:GPU:0"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/job:localhost/replica:0/task:0/device:CPU:0"));
  ASSERT_OK_AND_ASSIGN(auto soft, TestSession::Create(graph, {.allow_soft_placement = true}));
  ASSERT_OK(soft->Run({x}).status());
}

TEST(DirectSession, StepStatisticsWhenAsked) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {2});
  const Output y = Neg(s.WithOpName("y"), x);
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
  tensorflow::RunMetadata metadata;
  const Tensor value = Tensor::Vector<float>({1, 2});
  ASSERT_OK(session->Run({y}, {{x, value}}, {.trace = true, .partition_graphs = true}, &metadata).status());
  ASSERT_EQ(metadata.step_stats().dev_stats_size(), 1);
  const auto& stats = metadata.step_stats().dev_stats(0);
  EXPECT_EQ(stats.device(), "/job:localhost/replica:0/task:0/device:CPU:0");
  ASSERT_EQ(stats.node_stats_size(), 1);
  EXPECT_EQ(stats.node_stats(0).node_name(), "y");
  EXPECT_GT(stats.node_stats(0).all_start_micros(), absl::ToUnixMicros(absl::Now()) - 60'000'000);
  EXPECT_EQ(stats.node_stats(0).output(0).tensor_description().allocation_description().requested_bytes(), 8);
  ASSERT_EQ(metadata.partition_graphs_size(), 1);
  tensorflow::RunMetadata without;
  ASSERT_OK(session->Run({y}, {{x, value}}, {}, &without).status());
  EXPECT_EQ(without.ByteSizeLong(), 0);
}

// Many threads request the same signature before it is compiled.
TEST(DirectSession, ManyThreadsBringUpOneSignature) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s, kFloat, {});
  Output y = x;
  for (int i = 0; i < 50; ++i) y = Add(s, y, Const(s, 1.f));
  constexpr int kThreads = 8;
  for (int round = 0; round < 20; ++round) {
    ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
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

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(DirectSession, MemoryDoesNotGrowOverManySteps) {
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
  DirectSession session({});
  ASSERT_OK(session.Extend(graph.Export()));
  std::vector<Tensor> results;
  ASSERT_OK(session.Run({.targets = {init.node->name()}}, {}, {}, &results, nullptr));
  ASSERT_OK_AND_ASSIGN(const auto callable, session.Prepare({.feeds = {x.name()}, .fetches = {sum.name()}}));
  const Tensor value = Tensor::Vector<float>({1, 0, 0, 0});
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      results.clear();
      ASSERT_OK(session.Run(callable, {}, {value}, &results, nullptr));
    }
  };
  run(kSteps / 10);
  const int64_t before = ResidentBytes();
  run(kSteps);
  EXPECT_LT(ResidentBytes() - before, kGrowth);
}

// Steps of other kinds (waits, errors, cancellations, ...) leave nothing behind.
TEST(DirectSession, MemoryDoesNotGrowOverStepsOfAnyKind) {
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
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
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
         tensorflow::RunMetadata metadata;
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

std::vector<std::string> TracedNodes(const tensorflow::RunMetadata& metadata) {
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

TEST(DirectSession, StepStatisticsOfWaitsLoopsAndFailures) {
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
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph));
  const Tensor value = Tensor::Vector<float>({1, 2});
  const auto trace = [&](std::vector<TestSession::Fetch> fetches) {
    tensorflow::RunMetadata metadata;
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
TEST(DirectSession, StepStatisticsOfBranchesThatRunSideBySide) {
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
  ASSERT_OK_AND_ASSIGN(auto session, TestSession::Create(graph, {.optimizer = {.merge_common_subexpressions = false}}));
  std::sort(expected.begin(), expected.end());
  const Tensor value = Tensor::Zeros(kFloat, {256, 256});
  for (int i = 0; i < 50; ++i) {
    tensorflow::RunMetadata metadata;
    ASSERT_OK(session->Run({sum}, {{x, value}}, {.trace = i % 10 == 9}, &metadata).status());
    if (i % 10 == 9) {
      EXPECT_EQ(TracedNodes(metadata), expected) << i;
    }
  }
}

}  // namespace
}  // namespace thalweg
