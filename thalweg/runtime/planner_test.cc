// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/planner.h"

#include <pthread.h>
#include <sys/resource.h>

#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/frames.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/runtime/direct_session.h"

namespace thalweg {
namespace {

// On a thread whose stack is small. With AddressSanitizer functions take several
// times as much of it.
void RunOnSmallStack(std::function<void()> body) {
#if defined(__SANITIZE_ADDRESS__)
  constexpr size_t kStackBytes = 4 << 20;
#else
  constexpr size_t kStackBytes = 512 << 10;
#endif
  pthread_attr_t attributes;
  pthread_t thread;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackBytes), 0);
  const auto run = [](void* f) -> void* {
    (*static_cast<std::function<void()>*>(f))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &body), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

// An Identity has no code: its consumers depend on what it is one of.
TEST(Planner, AChainWithoutCodeMayBeLong) {
  constexpr int kNodes = 50'000;
  Graph graph;
  const Scope s = graph.root();
  Output y = Neg(s, Placeholder(s.WithOpName("x"), kFloat, {}));
  for (int i = 0; i < kNodes; ++i) {
    tensorflow::NodeDef def;
    def.set_name(absl::StrCat("id", i));
    def.set_op("Identity");
    SetAttr(def, "T", kFloat);
    ASSERT_OK_AND_ASSIGN(Node * node, graph.AddNode(std::move(def), {y}, {}));
    y = node->out();
  }
  Neg(s.WithOpName("y"), y);
  RunOnSmallStack([&] {
    DirectSession session({});
    ASSERT_OK(session.Extend(graph.Export()));
    ASSERT_OK_AND_ASSIGN(const auto step, session.Prepare({.feeds = {"x:0"}, .fetches = {"y:0"}}));
    std::vector<Tensor> results;
    ASSERT_OK(session.Run(step, {}, {Tensor::Scalar<float>(3)}, &results, nullptr));
    EXPECT_EQ(results[0].scalar<float>(), 3);
  });
}

// Each is over as soon as it begins.
TEST(Planner, AChainOfWaitsMayBeLong) {
  constexpr int kNodes = 5'000;
  Graph graph;
  const Scope s = graph.root();
  const Output queue = FIFOQueue(s.WithOpName("queue"), {kInt32});
  const Output value = Const(s, 1);
  Node* last = nullptr;
  for (int i = 0; i < kNodes; ++i) {
    tensorflow::NodeDef def;
    def.set_name(absl::StrCat("enqueue", i));
    def.set_op("QueueEnqueueV2");
    SetAttr(def, "Tcomponents", std::vector<DType>{kInt32});
    std::vector<Node*> before;
    if (last != nullptr) before.push_back(last);
    ASSERT_OK_AND_ASSIGN(last, graph.AddNode(std::move(def), {queue, value}, before));
  }
  s.WithOpName("size").WithControlDependencies({Output(last)}).Add("QueueSizeV2", {queue});
  ASSERT_OK(s.status());
  RunOnSmallStack([&] {
    DirectSession session({});
    ASSERT_OK(session.Extend(graph.Export()));
    ASSERT_OK_AND_ASSIGN(const auto step, session.Prepare({.fetches = {"size:0"}}));
    std::vector<Tensor> results;
    ASSERT_OK(session.Run(step, {}, {}, &results, nullptr));
    EXPECT_EQ(results[0].scalar<int32_t>(), kNodes);
  });
}

TEST(Planner, LoopsNestAsDeepAsTheyMay) {
  const auto nested = [](int depth) -> absl::StatusOr<float> {
    Graph graph;
    const Scope s = graph.root();
    Output x = Placeholder(s.WithOpName("x"), kFloat, {});
    for (int i = 0; i < depth; ++i) x = s.Add("Enter", {x}, {{"frame_name", std::string("loop")}});
    for (int i = 0; i < depth; ++i) x = s.Add("Exit", {Neg(s, x)});
    Neg(s.WithOpName("y"), x);
    RETURN_IF_ERROR(s.status());
    DirectSession session({});
    RETURN_IF_ERROR(session.Extend(graph.Export()));
    ASSIGN_OR_RETURN(const auto step, session.Prepare({.feeds = {"x:0"}, .fetches = {"y:0"}}));
    std::vector<Tensor> results;
    RETURN_IF_ERROR(session.Run(step, {}, {Tensor::Scalar<float>(3)}, &results, nullptr));
    return results[0].scalar<float>();
  };
  RunOnSmallStack([&] {
    EXPECT_EQ(*nested(kMaxFrameDepth), -3);
    EXPECT_THAT(nested(5'000), Fails(absl::StatusCode::kInvalidArgument, "lies in 100 others"));
  });
}

// Bytes that this process has had at most. What sanitizers keep beside them is not
// counted: with them it is always 0.
int64_t PeakBytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 0;
#else
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
#endif
}

tensorflow::NodeDef* AddNode(tensorflow::GraphDef& def, const std::string& name, const std::string& op,
                             const std::vector<std::string>& inputs) {
  tensorflow::NodeDef* node = def.add_node();
  node->set_name(name);
  node->set_op(op);
  for (const std::string& input : inputs) node->add_input(input);
  return node;
}

// Side by side or one after the other, and all of them before the last node.
TEST(Planner, AGraphMayHaveManyWaits) {
  constexpr int kWaits = 40'000;
  for (const bool chained : {false, true}) {
    tensorflow::GraphDef def;
    SetAttr(*AddNode(def, "queue", "FIFOQueueV2", {}), "component_types", std::vector<DType>{kFloat});
    std::vector<std::string> all;
    for (int i = 0; i < kWaits; ++i) {
      const std::string name = absl::StrCat("get", i);
      std::vector<std::string> inputs{"queue"};
      if (chained && i > 0) inputs.push_back(absl::StrCat("^neg", i - 1));
      SetAttr(*AddNode(def, name, "QueueDequeueV2", inputs), "component_types", std::vector<DType>{kFloat});
      SetAttr(*AddNode(def, absl::StrCat("neg", i), "Neg", {name}), "T", kFloat);
      all.push_back(absl::StrCat("^neg", i));
    }
    AddNode(def, "all", "NoOp", all);
    DirectSession session({});
    ASSERT_OK(session.Extend(def));
    const int64_t before = PeakBytes();
    ASSERT_OK(session.Prepare({.targets = {"all"}}).status());
    EXPECT_LT(PeakBytes() - before, 400 << 20) << chained;
  }
}

TEST(Planner, AGraphMayHaveManyLoops) {
  constexpr int kLoops = 5'000;
  tensorflow::GraphDef def;
  const auto add = [&](const std::string& name, const std::string& op, const std::vector<std::string>& inputs) {
    tensorflow::NodeDef* node = AddNode(def, name, op, inputs);
    SetAttr(*node, "T", kBool);
    return node;
  };
  tensorflow::NodeDef* no = AddNode(def, "no", "Const", {});
  SetAttr(*no, "dtype", kBool);
  SetAttr(*no, "value", Tensor::Scalar(false));
  std::vector<std::string> all;
  for (int i = 0; i < kLoops; ++i) {
    const std::string p = absl::StrCat("loop", i);
    SetAttr(*add(p + "/enter", "Enter", {"no"}), "frame_name", p);
    SetAttr(*add(p + "/merge", "Merge", {p + "/enter", p + "/next"}), "N", 2);
    AddNode(def, p + "/cond", "LoopCond", {p + "/merge"});
    add(p + "/switch", "Switch", {p + "/merge", p + "/cond"});
    add(p + "/next", "NextIteration", {p + "/switch:1"});
    add(p + "/exit", "Exit", {p + "/switch:0"});
    all.push_back("^" + p + "/exit");
  }
  AddNode(def, "all", "NoOp", all);
  DirectSession session({});
  ASSERT_OK(session.Extend(def));
  const int64_t before = PeakBytes();
  ASSERT_OK_AND_ASSIGN(const auto step, session.Prepare({.targets = {"all"}}));
  EXPECT_LT(PeakBytes() - before, 450 << 20);
  std::vector<Tensor> results;
  ASSERT_OK(session.Run(step, {}, {}, &results, nullptr));
}

}  // namespace
}  // namespace thalweg
