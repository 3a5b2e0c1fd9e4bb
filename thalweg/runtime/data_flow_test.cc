// SPDX-License-Identifier: Apache-2.0
// Queues and the like as sessions use them: steps that wait for each other.
#include <atomic>
#include <thread>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/kernel/op.h"
#include "thalweg/kernel/op_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/runtime/session_testlib.h"
#include "thalweg/tensor/resource_handle.h"

namespace thalweg {
namespace {

using Feed = TestSession::Feed;
using Fetch = TestSession::Fetch;
using testing::HasSubstr;

class DataFlowTest : public testing::Test {
 protected:
  TestSession& session() {
    if (session_ == nullptr) {
      auto made = TestSession::Create(graph_);
      EXPECT_TRUE(made.ok()) << made.status();
      session_ = *std::move(made);
    }
    return *session_;
  }
  Tensor Run(Output output, const std::vector<Feed>& feeds = {}) {
    auto values = session().Run({output}, feeds);
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? (*values)[0] : Tensor();
  }
  void RunNode(Output output, const std::vector<Feed>& feeds = {}) {
    const auto values = session().Run({output}, feeds);
    EXPECT_TRUE(values.ok()) << values.status();
  }
  std::string Error(Fetch fetch, absl::Duration timeout = absl::InfiniteDuration()) {
    return session().Run({fetch}, {}, {.timeout = timeout}).status().ToString();
  }

  Graph graph_;
  Scope s_ = graph_.root();
  std::unique_ptr<TestSession> session_;
};

TEST_F(DataFlowTest, ProducersAndConsumers) {
  const Output queue = FIFOQueue(s_, {kInt32}, {PartialShape(Shape())}, {.capacity = 3});
  const Output x = Placeholder(s_, kInt32, {});
  const Output put = QueueEnqueue(s_, queue, {x});
  const Output got = Mul(s_, QueueDequeue(s_, queue, {kInt32})[0], Const(s_, 2));
  const Output close = QueueClose(s_, queue);
  session();
  constexpr int kThreads = 3, kEach = 200;
  std::atomic<int64_t> sum{0};
  std::atomic<int> ends{0};
  std::vector<std::thread> producers, consumers;
  for (int t = 0; t < kThreads; ++t) {
    producers.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) RunNode(put, {{x, Tensor::Scalar<int32_t>(t * kEach + i)}});
    });
    consumers.emplace_back([&] {
      for (;;) {
        const auto value = session().Run({got});
        if (!value.ok()) {
          EXPECT_THAT(value.status().ToString(), HasSubstr("OUT_OF_RANGE: FIFOQueue '_"));
          EXPECT_THAT(value.status().ToString(), HasSubstr("_FIFOQueueV2' is closed and has insufficient elements "
                                                           "(requested 1, current size 0)"));
          ++ends;
          return;
        }
        sum += (*value)[0].scalar<int32_t>();
      }
    });
  }
  for (std::thread& thread : producers) thread.join();
  RunNode(close);
  for (std::thread& thread : consumers) thread.join();
  constexpr int64_t kTotal = kThreads * kEach;
  EXPECT_EQ(sum, kTotal * (kTotal - 1));
  EXPECT_EQ(ends, kThreads);
}

TEST_F(DataFlowTest, AStepThatTimesOutLosesNothing) {
  const Output queue = FIFOQueue(s_, {kInt32}, {PartialShape(Shape())});
  const Output put = QueueEnqueueMany(s_, queue, {Const(s_, {1, 2})});
  const std::vector<Output> three = QueueDequeueMany(s_, queue, Const(s_, 3), {kInt32});
  const Output size = QueueSize(s_, queue);
  RunNode(put);
  EXPECT_THAT(Error(three[0], absl::Milliseconds(20)), HasSubstr("DEADLINE_EXCEEDED"));
  ExpectTensor(Run(size), Tensor::Scalar(2));
  RunNode(put);
  ExpectTensor(Run(three[0]), Tensor::Vector({1, 2, 1}));
}

TEST_F(DataFlowTest, ClosingTheSessionEndsWaits) {
  const Output queue = FIFOQueue(s_, {kInt32}), begun = FIFOQueue(s_, {kInt32});
  const Output begin = QueueEnqueue(s_, begun, {Const(s_, 1)});
  const Output got = QueueDequeue(s_.WithControlDependencies({begin}), queue, {kInt32})[0];
  const Output signal = QueueDequeue(s_, begun, {kInt32})[0];
  session();
  std::thread waiting([&] { EXPECT_THAT(Error(got), HasSubstr("CANCELLED: Step was cancelled by an explicit call")); });
  Run(signal);
  EXPECT_TRUE(session().Close().ok());
  waiting.join();
}

TEST_F(DataFlowTest, QueuesWithoutANameArePrivate) {
  const Output mine = FIFOQueue(s_, {kInt32}), yours = FIFOQueue(s_, {kInt32});
  const Output shared = FIFOQueue(s_, {kInt32}, {}, {.shared_name = "s"}),
               same = FIFOQueue(s_, {kInt32}, {}, {.shared_name = "s"});
  RunNode(QueueEnqueue(s_, mine, {Const(s_, 1)}));
  RunNode(QueueEnqueue(s_, shared, {Const(s_, 1)}));
  ExpectTensor(Run(QueueSize(s_, mine)), Tensor::Scalar(1));
  ExpectTensor(Run(QueueSize(s_, yours)), Tensor::Scalar(0));
  ExpectTensor(Run(QueueSize(s_, same)), Tensor::Scalar(1));
}

// Synchronous training like SyncReplicasOptimizer: workers apply gradients and wait for a token; the
// chief takes the mean and enqueues tokens. A fast worker may take the token of a slow one, so only
// their number is certain: per step, there are as many gradients and tokens as workers.
TEST_F(DataFlowTest, WorkersInStep) {
  constexpr int kWorkers = 3, kSteps = 20;
  const Output accumulator = ConditionalAccumulator(s_, kFloat, {2});
  const Output tokens = FIFOQueue(s_, {kInt64}, {PartialShape(Shape())});
  const Output step = Placeholder(s_, kInt64, {}), gradient = Placeholder(s_, kFloat, {2});
  const Output applied = AccumulatorApplyGradient(s_, accumulator, step, gradient);
  const Output token = QueueDequeue(s_.WithControlDependencies({applied}), tokens, {kInt64})[0];
  const Output mean = AccumulatorTakeGradient(s_, accumulator, Const(s_, kWorkers), kFloat);
  const Output fresh = Placeholder(s_, kInt64, {kWorkers});
  const Output give = QueueEnqueueMany(s_, tokens, {fresh});
  const Output end = QueueClose(s_, tokens);
  session();
  std::atomic<int> taken{0};
  std::vector<std::thread> workers;
  for (int w = 0; w < kWorkers; ++w) {
    workers.emplace_back([&] {
      for (int64_t local = 0;; ++taken) {
        const Tensor value = Tensor::Vector({1.0f, static_cast<float>(local)});
        const auto next = session().Run({token}, {{step, Tensor::Scalar(local)}, {gradient, value}});
        if (!next.ok()) {
          EXPECT_THAT(next.status().ToString(), HasSubstr("OUT_OF_RANGE"));
          return;
        }
        local = (*next)[0].scalar<int64_t>();
      }
    });
  }
  for (int64_t i = 0; i < kSteps; ++i) {
    if (i > 0) RunNode(give, {{fresh, Tensor::Vector({i, i, i})}});
    ExpectTensor(Run(mean), Tensor::Vector({1.0f, static_cast<float>(i)}));
  }
  RunNode(end);
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(taken, kWorkers * (kSteps - 1));
  EXPECT_THAT(Error(mean, absl::Milliseconds(10)), HasSubstr("DEADLINE_EXCEEDED"));
}

TEST_F(DataFlowTest, TensorsStayInTheSession) {
  const Output keep = s_.Add("GetSessionHandle", {Const(s_, {1.0f, 2.0f})});
  const Output handle = Placeholder(s_, kString, {});
  const Output value = s_.Add("GetSessionTensor", {handle}, {{"dtype", kFloat}});
  const Output gone = s_.Add("DeleteSessionTensor", {handle});
  const Tensor name = Run(keep), other = Run(keep);
  EXPECT_NE(name.scalar<std::string>(), other.scalar<std::string>());
  ExpectTensor(Run(value, {{handle, name}}), Tensor::Vector({1.0f, 2.0f}));
  RunNode(gone, {{handle, name}});
  const auto deleted = session().Run({value}, {{handle, name}});
  EXPECT_THAT(deleted.status().ToString(), HasSubstr("' is not in the session store."));
  ExpectTensor(Run(value, {{handle, other}}), Tensor::Vector({1.0f, 2.0f}));
  const Output resource = s_.Add("GetSessionHandleV2", {Const(s_, 1.0f)});
  const ResourceHandle named = Run(resource).scalar<ResourceHandle>();
  EXPECT_EQ(named.type_name, "TensorHandle");
  ExpectTensor(Run(value, {{handle, Tensor::Scalar(named.name)}}), Tensor::Scalar(1.0f));
  // Another session knows nothing of them.
  auto second = *TestSession::Create(graph_);
  EXPECT_THAT(second->Run({value}, {{handle, other}}).status().ToString(), HasSubstr("is not in the session store."));
}

TEST_F(DataFlowTest, StagesAndKeysWaitForEachOther) {
  const std::vector<AttrArg> area{{"dtypes", std::vector<DType>{kInt32}}, {"capacity", 2}, {"shared_name", "a"}};
  const Output x = Placeholder(s_, kInt32, {});
  const Output put = s_.Add("Stage", {std::vector<Output>{x}}, area), get = s_.Add("Unstage", {}, area);
  const std::vector<AttrArg> map{{"dtypes", std::vector<DType>{kInt32}}, {"capacity", 1}, {"shared_name", "m"}};
  const Output key = Placeholder(s_, kInt64, {}), indices = Const(s_, Tensor::Vector<int32_t>({0}));
  const Output map_put = s_.Add("MapStage", {key, indices, std::vector<Output>{x}}, map);
  const Output map_get = s_.Add("MapUnstage", {key, indices}, map);
  session();
  std::thread producer([&] {
    for (int i = 0; i < 100; ++i) {
      RunNode(put, {{x, Tensor::Scalar(i)}});
      RunNode(map_put, {{key, Tensor::Scalar<int64_t>(i)}, {x, Tensor::Scalar(i * 10)}});
    }
  });
  for (int i = 0; i < 100; ++i) {
    ExpectTensor(Run(get), Tensor::Scalar(i));
    ExpectTensor(Run(map_get, {{key, Tensor::Scalar<int64_t>(i)}}), Tensor::Scalar(i * 10));
  }
  producer.join();
  EXPECT_THAT(Error(get, absl::Milliseconds(10)), HasSubstr("DEADLINE_EXCEEDED"));
}

TEST_F(DataFlowTest, ABarrierWaitsForAllPieces) {
  const std::vector<DType> types{kInt32, kInt32};
  const std::vector<PartialShape> shapes{PartialShape(Shape()), PartialShape(Shape())};
  const Output barrier = s_.Add("Barrier", {}, {{"component_types", types}, {"shapes", shapes}});
  const Output keys = Placeholder(s_, kString, {-1}), values = Placeholder(s_, kInt32, {-1});
  const Output first = s_.Add("BarrierInsertMany", {barrier, keys, values}, {{"component_index", 0}});
  const Output second = s_.Add("BarrierInsertMany", {barrier, keys, values}, {{"component_index", 1}});
  Node* const take = s_.Add("BarrierTakeMany", {barrier, Const(s_, 2)}, {{"component_types", types}});
  const Output close = s_.Add("BarrierClose", {barrier});
  session();
  std::thread taker([&] {
    const auto values = session().Run({take->out(1), take->out(3)});
    ASSERT_TRUE(values.ok()) << values.status();
    ExpectTensor((*values)[0], Tensor::Vector<std::string>({"a", "b"}));
    ExpectTensor((*values)[1], Tensor::Vector({10, 20}));
  });
  RunNode(first, {{keys, Tensor::Vector<std::string>({"a"})}, {values, Tensor::Vector({1})}});
  RunNode(first, {{keys, Tensor::Vector<std::string>({"b", "c"})}, {values, Tensor::Vector({2, 3})}});
  RunNode(second, {{keys, Tensor::Vector<std::string>({"b", "a"})}, {values, Tensor::Vector({20, 10})}});
  taker.join();
  EXPECT_THAT(Error(take->out(1), absl::Milliseconds(10)), HasSubstr("DEADLINE_EXCEEDED"));
  RunNode(close);
  EXPECT_THAT(Error(take->out(1)), HasSubstr("is closed and has insufficient elements (requested 2, total size 1)"));
}

// Counts the calls whose input was not shared.
std::atomic<int> owned{0};
absl::Status CountOwned(KernelContext& c) {
  Tensor x = c.TakeInput(0);
  if (x.unique()) ++owned;
  c.set_output(0, x.unique() ? std::move(x) : x.Clone());
  return absl::OkStatus();
}
const OpRegistration kCountOwned =
    Op("TestCountOwned").Input("x: float").Output("y: float").Stateful().Compute(CountOwned);

// Otherwise a list to which n iterations push would be copied n times.
TEST(Loops, PassOnWhatTheyCarry) {
  tensorflow::GraphDef def;
  const auto add = [&](const char* name, const char* op, const std::vector<std::string>& inputs,
                       const std::vector<AttrArg>& attrs = {}) {
    tensorflow::NodeDef* const node = def.add_node();
    node->set_name(name);
    node->set_op(op);
    for (const std::string& input : inputs) node->add_input(input);
    for (const AttrArg& attr : attrs) (*node->mutable_attr())[attr.name] = attr.value();
  };
  add("start", "Const", {}, {{"dtype", kFloat}, {"value", Tensor::Vector({1.0f, 2.0f})}});
  add("zero", "Const", {}, {{"dtype", kInt32}, {"value", Tensor::Scalar(0)}});
  add("limit", "Const", {}, {{"dtype", kInt32}, {"value", Tensor::Scalar(10)}});
  for (const auto& [v, from, type] : {std::tuple{"i", "zero", kInt32}, std::tuple{"x", "start", kFloat}}) {
    const auto name = [v = std::string(v)](const char* what) { return v + what; };
    add(name("_enter").c_str(), "Enter", {from}, {{"T", type}, {"frame_name", "w"}});
    add(name("_merge").c_str(), "Merge", {name("_enter"), name("_next")}, {{"T", type}, {"N", 2}});
    add(name("_switch").c_str(), "Switch", {name("_merge"), "cond"}, {{"T", type}});
    add(name("_next").c_str(), "NextIteration", {name("_body")}, {{"T", type}});
  }
  add("max", "Enter", {"limit"}, {{"T", kInt32}, {"frame_name", "w"}, {"is_constant", true}});
  add("less", "Less", {"i_merge", "max"}, {{"T", kInt32}});
  add("cond", "LoopCond", {"less"});
  add("one", "Const", {"^i_pivot"}, {{"dtype", kInt32}, {"value", Tensor::Scalar(1)}});
  add("i_pivot", "Identity", {"i_switch:1"}, {{"T", kInt32}});
  add("i_body", "AddV2", {"i_pivot", "one"}, {{"T", kInt32}});
  add("x_body", "TestCountOwned", {"x_switch:1"});
  add("exit", "Exit", {"x_switch"}, {{"T", kFloat}});
  Graph graph;
  const absl::Status imported = graph.Import(def);
  ASSERT_TRUE(imported.ok()) << imported;
  auto session = *TestSession::Create(graph);
  const auto out = session->Run({"exit:0"});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectTensor((*out)[0], Tensor::Vector({1.0f, 2.0f}));
  EXPECT_EQ(owned, 9) << "all but the first time, when it is a constant";
}

}  // namespace
}  // namespace thalweg
