// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/prepare.h"

#include <algorithm>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/base/notification.h"
#include "thalweg/base/status.h"
#include "thalweg/graph/graph_testlib.h"
#include "thalweg/graph/scope.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/runtime/local_devices.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

constexpr const char* kWorkerDevice = "/job:worker/replica:0/task:0/device:CPU:0";
constexpr const char* kPsDevice = "/job:ps/replica:0/task:0/device:CPU:0";

// An op without side effects, which therefore runs during constant folding. It blocks until the test
// continues it.
struct Folding {
  Notification began, go_on;
};
Folding* the_folding = nullptr;
absl::Status WaitWhileFolded(KernelContext& c) {
  the_folding->began.Notify();
  the_folding->go_on.WaitForNotification();
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}
const OpRegistration kSlowToFold = Op("TestSlowToFold")
                                       .Input("x: T")
                                       .Output("y: T")
                                       .Attr("T: type")
                                       .Shape(shapes::LikeInput0)
                                       .Compute(WaitWhileFolded);

class SessionGraphTest : public testing::Test {
 protected:
  SessionGraphTest() {
    for (const char* name : {kWorkerDevice, kPsDevice}) options_.placer.devices.push_back({*DeviceName::Parse(name)});
    options_.folding_device = devices_.devices()[0].get();
  }
  absl::StatusOr<Graph> Prepare(const Signature& signature) {
    return session_.Prepare(signature, options_, cancellation_);
  }

  LocalDevices devices_{{}};
  PrepareOptions options_;
  SessionGraph session_;
  Cancellation cancellation_;
};

// The rule of TensorFlow 1 is kept for its graphs.
TEST_F(SessionGraphTest, NodesOfOldGraphsThatAskForNoTaskGoToTheFirstByName) {
  Graph graph;
  const Scope s = graph.root();
  Neg(s.WithDevice("/cpu:0").WithOpName("y"), Placeholder(s.WithOpName("x"), kFloat, {}));
  tensorflow::GraphDef def = graph.Export();
  options_.placer.default_device = kWorker;
  const Signature signature{.feeds = {"x:0"}, .fetches = {"y:0"}};
  constexpr char kFirst[] = "/job:ps/replica:0/task:0/device:CPU:0";
  constexpr char kOwn[] = "/job:worker/replica:0/task:0/device:CPU:0";
  for (const auto& [version, device] : {std::pair(134, kFirst), std::pair(440, kOwn), std::pair(0, kOwn)}) {
    def.mutable_versions()->set_producer(version);
    SessionGraph session;
    ASSERT_OK(session.Import(def));
    ASSERT_OK_AND_ASSIGN(const Graph prepared, session.Prepare(signature, options_, cancellation_));
    EXPECT_EQ(prepared.FindNode("y")->device(), device) << version;
  }
}

TEST_F(SessionGraphTest, ASignatureIsPrunedPlacedAndOptimized) {
  Graph graph;
  const Scope s = graph.root();
  const Output x = Placeholder(s.WithOpName("x"), kFloat, {});
  const Output sum = Add(s.WithOpName("sum"), Const(s, 1.f), Const(s, 2.f));
  Mul(s.WithDevice("/job:ps").WithOpName("product"), x, sum);
  Neg(s.WithOpName("unused"), x);
  ASSERT_OK(session_.Import(graph.Export()));
  ASSERT_OK_AND_ASSIGN(const Graph prepared, Prepare({.feeds = {"x:0"}, .fetches = {"product:0"}}));
  EXPECT_EQ(prepared.FindNode("unused"), nullptr);
  ASSERT_NE(prepared.FindNode("product"), nullptr);
  EXPECT_EQ(prepared.FindNode("product")->device(), kPsDevice);
  EXPECT_TRUE(std::none_of(prepared.nodes().begin(), prepared.nodes().end(), [](const auto& node) {
    return node->op() == "AddV2";
  })) << "the sum of constants is folded";
  ASSERT_OK_AND_ASSIGN(const std::vector<Placed> placed,
                       session_.ExplainPlacement({.feeds = {"x:0"}, .fetches = {"product:0"}}, options_));
  EXPECT_THAT(DescribePlacement(placed), HasSubstr("sum: (AddV2): /job:worker"));
  EXPECT_THAT(DescribePlacement(placed), HasSubstr("product: (Mul): /job:ps"));
}

TEST_F(SessionGraphTest, ExtensionsHaveVersions) {
  Graph graph;
  const Scope s = graph.root();
  Const(s.WithOpName("a"), 1.f);
  ASSERT_OK(session_.Import(graph.Export()));
  Const(s.WithOpName("b"), 1.f);
  EXPECT_THAT(session_.Extend(graph.Export(1), 1).status(),
              Fails(absl::StatusCode::kAborted, "Current version is 0 but caller expected 1"));
  EXPECT_THAT(session_.Extend(graph.Export(), 0).status(),
              Fails(absl::StatusCode::kInvalidArgument, "node 'a', which was created by a previous call"));
  ASSERT_OK_AND_ASSIGN(const int64_t version, session_.Extend(graph.Export(1), 0));
  EXPECT_EQ(version, 1);
  EXPECT_THAT(Prepare({.fetches = {"b:0"}}).status(), IsOk());
}

TEST_F(SessionGraphTest, AbsentTasksAreNamedIfANodeHasNoPlace) {
  Graph graph;
  const Scope s = graph.root();
  Const(s.WithDevice("/job:ps/task:1").WithOpName("far"), 1.f);
  Const(s.WithOpName("near"), 1.f);
  ASSERT_OK(session_.Import(graph.Export()));
  EXPECT_THAT(Prepare({.fetches = {"far:0"}}).status(), Fails(absl::StatusCode::kInvalidArgument, "far"));
  options_.absent_tasks = {"/job:ps/replica:0/task:1"};
  EXPECT_THAT(Prepare({.fetches = {"far:0"}}).status(),
              Fails(absl::StatusCode::kUnavailable, "/job:ps/replica:0/task:1 has left the cluster"));
  EXPECT_THAT(Prepare({.fetches = {"near:0"}}).status(), IsOk());
}

// Folding may take long. Only callers that need its result wait for it.
TEST_F(SessionGraphTest, OnePreparationDoesNotHoldUpOthers) {
  Folding folding;
  the_folding = &folding;
  Graph graph;
  const Scope s = graph.root();
  s.WithOpName("slow").Add("TestSlowToFold", {Const(s, 1.f)});
  Const(s.WithOpName("quick"), 1.f);
  ASSERT_OK(s.status());
  ASSERT_OK(session_.Import(graph.Export()));
  std::thread slow([&] {
    Cancellation cancellation;
    EXPECT_THAT(session_.Prepare({.fetches = {"slow:0"}}, options_, cancellation).status(), IsOk());
  });
  folding.began.WaitForNotification();
  EXPECT_THAT(Prepare({.fetches = {"quick:0"}}).status(), IsOk());
  Const(s.WithOpName("later"), 1.f);
  EXPECT_THAT(session_.Extend(graph.Export(graph.num_nodes() - 1), 0).status(), IsOk());
  EXPECT_THAT(Prepare({.fetches = {"later:0"}}).status(), IsOk());
  folding.go_on.Notify();
  slow.join();
}

TEST_F(SessionGraphTest, ItsCancellationEndsAPreparation) {
  Graph graph;
  Const(graph.root().WithOpName("a"), 1.f);
  ASSERT_OK(session_.Import(graph.Export()));
  cancellation_.Cancel(Cancelled("enough"));
  EXPECT_THAT(Prepare({.fetches = {"a:0"}}).status(), Fails(absl::StatusCode::kCancelled, "enough"));
}

}  // namespace
}  // namespace thalweg
