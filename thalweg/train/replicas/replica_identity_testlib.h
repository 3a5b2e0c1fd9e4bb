// SPDX-License-Identifier: Apache-2.0
// The workers of a distributed training in one process. Each has its own graph and session on
// a TestCluster, and runs its hooks around the steps.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "thalweg/client/cluster_testlib.h"
#include "thalweg/train/optimizers/optimizers.h"
#include "thalweg/train/session/hooks.h"

namespace thalweg {

// The loss is sum((w - x)^2) / 2 + sum(table[1, 3, 1] * x)^2 for w [2] and table [4, 2], which
// are on different parameter servers if there are two.
struct TestModel {
  explicit TestModel(const Scope& s);
  Output x;  // fed, [2]
  Output loss;
  Var w, table;
};

class TestReplica {
 public:
  using MakeOptimizer = std::function<std::unique_ptr<Optimizer>()>;

  // Without a cluster, runs in this process. The chief is the task of job "chief" if the
  // cluster has one, otherwise worker 0.
  TestReplica(TestCluster* cluster, const TaskId& task, const MakeOptimizer& make);
  TestReplica(TestCluster* cluster, int worker, const MakeOptimizer& make)
      : TestReplica(cluster, TaskId{"worker", worker}, make) {}
  ~TestReplica();

  // Opens the session; the chief initializes variables.
  absl::Status TryStart();
  void Start();
  absl::Status TryStep(float x0, float x1);
  void Step(float x0, float x1);
  void End();
  void Close();  // without End

  Tensor Read(Output output);
  std::vector<float> Values();  // w, then table
  int64_t GlobalStep() { return Read(GetGlobalStep(graph)).scalar<int64_t>(); }

  Graph graph;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<TestModel> model;
  std::unique_ptr<Session> session;

 private:
  TestCluster* const cluster_;
  const TaskId task_;
  const bool is_chief_;
  Output train_, init_, local_init_;
  HookList hooks_;
};

}  // namespace thalweg
