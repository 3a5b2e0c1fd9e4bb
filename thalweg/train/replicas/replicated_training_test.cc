// SPDX-License-Identifier: Apache-2.0
// Whole programs: replicas in MonitoredTrainingSessions, asynchronous and synchronous.
#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "thalweg/checkpoint/bundle_reader.h"
#include "thalweg/ops/data_flow_ops.h"
#include "thalweg/runtime/session_testlib.h"
#include "thalweg/train/checkpoints/checkpoint_state.h"
#include "thalweg/train/optimizers/delay_compensation.h"
#include "thalweg/train/optimizers/optimizers.h"
#include "thalweg/train/replicas/bounded_staleness.h"
#include "thalweg/train/replicas/replica_device_setter.h"
#include "thalweg/train/replicas/replica_identity_testlib.h"
#include "thalweg/train/replicas/sync_replicas.h"
#include "thalweg/train/session/hooks.h"
#include "thalweg/train/session/monitored_session.h"
#include "thalweg/train/train_testlib.h"

namespace thalweg {
namespace {

class ReplicatedTrainingTest : public FolderTest {
 protected:
  struct Program {
    TestReplica::MakeOptimizer optimizer;
    int64_t last_step = 20;
    // Called after every step of every worker.
    std::function<void(int worker, int64_t steps)> after_step = [](int, int64_t) {};
    int64_t own_steps[3] = {-1, -1, -1};  // maximum number of steps per worker
  };

  // One worker, from its start to its end. The steps it made.
  int64_t RunWorker(const ClusterSpec& cluster, const std::string& target, int worker, const Program& program) {
    Graph graph;
    const Scope s =
        graph.root().WithDevice(ReplicaDeviceSetter({.cluster = cluster, .worker = TaskId{"worker", worker}}));
    const TestModel model(s);
    const auto optimizer = program.optimizer();
    const Output train_op = optimizer->Minimize(s, model.loss, {.global_step = GetOrCreateGlobalStep(s)});
    auto session = MonitoredTrainingSession::Start(
        graph, {.master = target,
                .is_chief = worker == 0,
                .checkpoint_dir = folder_,
                .hooks = optimizer->Hooks(worker == 0) + HookList{StopAtStep(program.last_step)},
                .save_checkpoint_steps = 5,
                .log_step_count_steps = 0,
                .max_wait = absl::Minutes(1)});
    EXPECT_TRUE(session.ok()) << session.status();
    if (!session.ok()) return -1;
    int64_t steps = 0;
    while (!session->ShouldStop() && steps != program.own_steps[worker]) {
      const auto out = session->Run({train_op}, {{model.x, Tensor::Vector<float>({0.1f, 0.2f})}});
      EXPECT_TRUE(out.ok()) << "worker " << worker << ": " << out.status();
      if (!out.ok()) break;
      program.after_step(worker, ++steps);
    }
    const absl::Status closed = session->Close();
    EXPECT_TRUE(closed.ok()) << closed;
    return steps;
  }

  // All of them; their steps.
  std::vector<int64_t> RunAll(TestCluster& cluster, int workers, const Program& program) {
    std::vector<int64_t> steps(workers);
    std::vector<std::thread> threads;
    for (int i = 0; i < workers; ++i) {
      threads.emplace_back(
          [&, i, target = cluster.target({"worker", i})] { steps[i] = RunWorker(cluster.spec(), target, i, program); });
    }
    for (std::thread& thread : threads) thread.join();
    return steps;
  }
  std::string Latest() const { return LatestCheckpoint(folder_).value_or("none"); }
};

std::unique_ptr<Optimizer> InStep(int n) {
  return SyncReplicas(GradientDescent({.learning_rate = 0.01}), {.replicas_to_aggregate = n, .total_num_replicas = n});
}

TEST_F(ReplicatedTrainingTest, InStep) {
  TestCluster cluster({{"ps", 2}, {"worker", 2}});
  const std::vector<int64_t> steps = RunAll(cluster, 2, {.optimizer = [] { return InStep(2); }});
  EXPECT_EQ(Latest(), Path("model.ckpt-20"));
  EXPECT_THAT(steps, testing::Each(20));
  // Every checkpoint is of the step it is named after.
  for (const int step : {0, 5, 10, 15, 20}) {
    const auto reader = BundleReader::Open(PosixFileSystem(), Path(absl::StrCat("model.ckpt-", step)));
    ASSERT_TRUE(reader.ok()) << reader.status();
    const auto saved = (*reader)->Read("global_step");
    ASSERT_TRUE(saved.ok()) << saved.status();
    EXPECT_EQ(saved->scalar<int64_t>(), step);
  }
}

TEST_F(ReplicatedTrainingTest, WorkersWithLessDataAndWithNone) {
  TestCluster cluster({{"ps", 1}, {"worker", 3}});
  const std::vector<int64_t> steps =
      RunAll(cluster, 3, {.optimizer = [] { return InStep(3); }, .own_steps = {-1, 4, 0}});
  EXPECT_EQ(Latest(), Path("model.ckpt-20"));
  EXPECT_THAT(steps, testing::ElementsAre(20, 4, 0));
}

TEST_F(ReplicatedTrainingTest, AChiefWithLessData) {
  TestCluster cluster({{"ps", 1}, {"worker", 2}});
  const std::vector<int64_t> steps =
      RunAll(cluster, 2, {.optimizer = [] { return InStep(2); }, .own_steps = {4, -1, -1}});
  EXPECT_EQ(Latest(), Path("model.ckpt-20")) << "it writes the last checkpoint when the others are done";
  EXPECT_EQ(steps[0], 4);
}

TEST_F(ReplicatedTrainingTest, AParameterServerIsLostAndComesBack) {
  TestCluster cluster({{"ps", 2}, {"worker", 2}});
  std::atomic<bool> once{false};
  RunAll(cluster, 2,
         {.optimizer = [] { return InStep(2); },
          .after_step =
              [&](int worker, int64_t steps) {
                if (worker != 0 || steps < 8 || once.exchange(true)) return;
                cluster.Stop({"ps", 1});
                cluster.Start({"ps", 1});
              }});
  EXPECT_TRUE(once);
  EXPECT_EQ(Latest(), Path("model.ckpt-20"));
}

TEST_F(ReplicatedTrainingTest, AsynchronousInSeveralWays) {
  TestCluster cluster({{"ps", 2}, {"worker", 2}});
  int64_t last = 0;
  for (const TestReplica::MakeOptimizer& make : std::vector<TestReplica::MakeOptimizer>{
           [] { return GradientDescent({.learning_rate = 0.01}); },
           [] { return BoundedStaleness(GradientDescent({.learning_rate = 0.01}), {.slack = 2}); },
           [] {
             return BoundedStaleness(DelayCompensation(GradientDescent({.learning_rate = 0.01}), {.lambda = 0.1}),
                                     {.slack = 2});
           }}) {
    last += 10;  // each goes on with what the last has left
    RunAll(cluster, 2, {.optimizer = make, .last_step = last});
    // The other worker may have been in a step when this one made the last.
    EXPECT_THAT(Latest(),
                testing::AnyOf(Path(absl::StrCat("model.ckpt-", last)), Path(absl::StrCat("model.ckpt-", last + 1))));
  }
}

}  // namespace
}  // namespace thalweg
