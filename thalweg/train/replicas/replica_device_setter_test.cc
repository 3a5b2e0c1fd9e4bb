// SPDX-License-Identifier: Apache-2.0
// Devices are those of TensorFlow 1.15.5: tf.train.replica_device_setter on the
// same graph, balanced with tf.contrib.training.GreedyLoadBalancingStrategy and
// byte_size_load_fn.
#include "thalweg/train/replicas/replica_device_setter.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/train/layers/partitioned_variable.h"
#include "thalweg/train/optimizers/optimizers.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ClusterSpec Cluster() { return *ClusterSpec::Parse("ps|a:1;b:1;c:1,worker|d:1;e:1"); }

// "name device" of what matters.
std::vector<std::string> VariableDevices(const PlacementStrategy& strategy, const PlacementStrategy& another) {
  Graph graph;
  const Scope root = graph.root();
  std::vector<Output> shown;
  const auto var = [&](const Scope& s, const char* name, const Shape& shape) {
    const Var v = MakeVariable(s, name, shape);
    shown.push_back(v.ref);
    return v;
  };
  const auto constant = [&](const Scope& s, const char* name) { shown.push_back(Const(s.WithOpName(name), 1.0f)); };
  const Scope s =
      root.WithDevice(ReplicaDeviceSetter({.cluster = Cluster(), .worker = TaskId{"worker", 1}, .strategy = strategy}));
  shown.push_back(Placeholder(s.WithOpName("x"), kFloat, {-1, 4}));
  const Var a = var(s, "a", {4, 100});
  shown.insert(shown.end(), {a.initializer, a.read});
  var(s, "b", {100});
  var(s, "c", {2});
  var(s, "d", {300});
  int i = 0;
  for (const char* device :
       {"/cpu:0", "/job:worker", "/job:ps", "/job:ps/task:2", "/task:0", "/job:worker/task:0/device:GPU:1"}) {
    const Scope inner = s.WithDevice(device);
    var(inner, std::vector{"e", "f", "g", "h", "i", "j"}[i], {i == 0 ? 10 : 3});
    constant(inner, std::vector{"k0", "k1", "k2", "k3", "k4", "k5"}[i]);
    ++i;
  }
  var(s, "l", {3});
  const Var m = var(s, "m", {2});
  const Output loss = ReduceSum(s.WithOpName("Sum"), m);
  shown.push_back(loss);
  const Var step = GetOrCreateGlobalStep(s);
  shown.push_back(step.ref);
  const auto optimizer = Adam();
  shown.push_back(optimizer->Minimize(s, loss, {.global_step = step, .var_list = {m}}));
  for (const char* name : {"beta1_power", "beta2_power", "m/Adam", "m/Adam_1"}) shown.push_back(graph.FindNode(name));
  const Scope chief =
      root.WithDevice("/job:chief")
          .WithDevice(ReplicaDeviceSetter({.cluster = Cluster(), .worker = TaskId{"worker", 1}, .strategy = another}));
  var(chief, "n", {3});
  constant(chief, "k6");
  EXPECT_TRUE(root.ok()) << root.status();
  std::vector<std::string> lines;
  for (const Output& o : shown) lines.push_back(o.node->name() + " " + o.node->device());
  return lines;
}

TEST(ReplicaDeviceSetter, InTurnAsTensorFlow) {
  EXPECT_THAT(
      VariableDevices(RoundRobin(), RoundRobin()),
      ElementsAre("x /job:worker/task:1", "a /job:ps/task:0", "a/Assign /job:ps/task:0", "a/read /job:ps/task:0",
                  "b /job:ps/task:1", "c /job:ps/task:2", "d /job:ps/task:0", "e /job:ps/task:1/device:CPU:0",
                  "k0 /job:worker/task:1/device:CPU:0", "f /job:worker", "k1 /job:worker/task:1", "g /job:ps/task:2",
                  "k2 /job:ps/task:1", "h /job:ps/task:2", "k3 /job:ps/task:2", "i /job:ps/task:0",
                  "k4 /job:worker/task:0", "j /job:worker/task:0/device:GPU:1", "k5 /job:worker/task:0/device:GPU:1",
                  "l /job:ps/task:2", "m /job:ps/task:0", "Sum /job:worker/task:1", "global_step /job:ps/task:1",
                  "Adam /job:ps/task:1", "beta1_power /job:ps/task:0", "beta2_power /job:ps/task:0",
                  "m/Adam /job:ps/task:0", "m/Adam_1 /job:ps/task:0", "n /job:ps/task:0", "k6 /job:worker/task:1"));
}

TEST(ReplicaDeviceSetter, BalancedAsTensorFlow) {
  const std::vector<std::string> expected = {"x /job:worker/task:1",
                                             "a /job:ps/task:0",
                                             "a/Assign /job:ps/task:0",
                                             "a/read /job:ps/task:0",
                                             "b /job:ps/task:1",
                                             "c /job:ps/task:2",
                                             "d /job:ps/task:2",
                                             "e /job:ps/task:1/device:CPU:0",
                                             "k0 /job:worker/task:1/device:CPU:0",
                                             "f /job:worker",
                                             "k1 /job:worker/task:1",
                                             "g /job:ps/task:1",
                                             "k2 /job:ps/task:1",
                                             "h /job:ps/task:2",
                                             "k3 /job:ps/task:2",
                                             "i /job:ps/task:0",
                                             "k4 /job:worker/task:0",
                                             "j /job:worker/task:0/device:GPU:1",
                                             "k5 /job:worker/task:0/device:GPU:1",
                                             "l /job:ps/task:1",
                                             "m /job:ps/task:1",
                                             "Sum /job:worker/task:1",
                                             "global_step /job:ps/task:1",
                                             "Adam /job:ps/task:1",
                                             "beta1_power /job:ps/task:1",
                                             "beta2_power /job:ps/task:1",
                                             "m/Adam /job:ps/task:1",
                                             "m/Adam_1 /job:ps/task:1",
                                             "n /job:ps/task:0",
                                             "k6 /job:worker/task:1"};
  EXPECT_EQ(VariableDevices(BalancedByBytes(), BalancedByBytes()), expected);
  EXPECT_EQ(VariableDevices({}, {}), expected) << "it is the default, and every worker gets the same";
}

TEST(ReplicaDeviceSetter, PartsAreSpread) {
  Graph graph;
  const Scope s = graph.root().WithDevice(ReplicaDeviceSetter({.ps_tasks = 2}));
  const PartitionedVariable table =
      MakePartitionedVariable(s, "table", {1000, 16}, {.partitioner = partitioners::FixedSize(4)});
  const Output rows = EmbeddingLookup(s, table, Placeholder(s, kInt64, {-1}));
  Momentum()->Minimize(s, ReduceSum(s, rows), {.global_step = GetOrCreateGlobalStep(s)});
  ASSERT_TRUE(s.ok()) << s.status();
  const VariablePlacement placement = ExplainVariables(graph);
  ASSERT_EQ(placement.tasks.size(), 2u);
  EXPECT_EQ(placement.tasks[0].name, "/job:ps/task:0");
  EXPECT_EQ(placement.tasks[0].bytes, 2 * 2 * 250 * 16 * 4 + 8);
  EXPECT_EQ(placement.tasks[1].bytes, 2 * 2 * 250 * 16 * 4);
  EXPECT_EQ(placement.ToString(),
            "task            variables       bytes  share\n"
            "/job:ps/task:0          5     62.5 KB    50%\n"
            "/job:ps/task:1          4     62.5 KB    50%\n"
            "\n"
            "variable               shape          bytes  device\n"
            "table/part_0           [250,16]     15.6 KB  /job:ps/task:0\n"
            "table/part_1           [250,16]     15.6 KB  /job:ps/task:1\n"
            "table/part_2           [250,16]     15.6 KB  /job:ps/task:0\n"
            "table/part_3           [250,16]     15.6 KB  /job:ps/task:1\n"
            "global_step            []               8 B  /job:ps/task:0\n"
            "table/part_0/Momentum  [250,16]     15.6 KB  /job:ps/task:0\n"
            "table/part_1/Momentum  [250,16]     15.6 KB  /job:ps/task:1\n"
            "table/part_2/Momentum  [250,16]     15.6 KB  /job:ps/task:0\n"
            "table/part_3/Momentum  [250,16]     15.6 KB  /job:ps/task:1\n");
  // Rows are gathered beside their part.
  for (const auto& node : graph.nodes()) {
    if (node->op() == "GatherV2" && node->input(0).node->op() == "Identity") {
      EXPECT_EQ(node->device(), node->input(0).node->device()) << node->name();
    }
  }
}

TEST(ReplicaDeviceSetter, WithoutParameterServersNothingIsChosen) {
  Graph graph;
  const Scope s = graph.root().WithDevice(ReplicaDeviceSetter({.cluster = *ClusterSpec::Parse("worker|a:1;b:1")}));
  EXPECT_EQ(MakeVariable(s, "v", Shape({1})).ref.node->device(), "");
  EXPECT_THAT(ExplainVariables(graph).ToString(), HasSubstr("anywhere"));
}

TEST(ReplicaDeviceSetter, OtherJobsDevicesAndOps) {
  Graph graph;
  const Scope s =
      graph.root().WithDevice(ReplicaDeviceSetter({.cluster = *ClusterSpec::Parse("keeper|a:1;b:1,trainer|c:1"),
                                                   .ps_device = "/job:keeper/device:CPU:1",
                                                   .worker_device = "/job:trainer/task:0",
                                                   .ps_ops = {"VariableV2", "Const"},
                                                   .strategy = RoundRobin()}));
  EXPECT_EQ(MakeVariable(s, "v", Shape({1})).ref.node->device(), "/job:keeper/task:0/device:CPU:1");
  EXPECT_EQ(Const(s, 1.0f).node->device(), "/job:keeper/task:1/device:CPU:1");
  EXPECT_EQ(Placeholder(s, kFloat).node->device(), "/job:trainer/task:0");
}

TEST(ReplicaDeviceSetter, TasksNeedNotBeDense) {
  Graph graph;
  const Scope s = graph.root().WithDevice(
      ReplicaDeviceSetter({.cluster = *ClusterSpec::Parse("ps|1=a:1;4=b:1,worker|c:1"), .strategy = RoundRobin()}));
  EXPECT_EQ(MakeVariable(s, "v", Shape({1})).ref.node->device(), "/job:ps/task:1");
  EXPECT_EQ(MakeVariable(s, "w", Shape({1})).ref.node->device(), "/job:ps/task:4");
}

TEST(ReplicaDeviceSetter, ErrorsAreTheScopes) {
  const auto error = [](const ReplicaDeviceSetterOptions& options) {
    Graph graph;
    MakeVariable(graph.root().WithDevice(ReplicaDeviceSetter(options)), "v", Shape({1}));
    return std::string(graph.build_status().message());
  };
  EXPECT_THAT(error({.ps_tasks = 2, .strategy = [](const NewOperation&, int) { return 2; }}),
              HasSubstr("the strategy chose parameter server 2 of 2 for v"));
  EXPECT_THAT(error({.ps_tasks = 2, .ps_device = "/jobs:ps:0:1"}), HasSubstr("'/jobs:ps:0:1'"));
  EXPECT_THAT(error({.cluster = Cluster(), .ps_device = "/jobs:ps:0:1"}), HasSubstr("'/jobs:ps:0:1'"));
}

}  // namespace
}  // namespace thalweg
