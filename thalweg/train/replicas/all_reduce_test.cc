// SPDX-License-Identifier: Apache-2.0
#include "thalweg/train/replicas/all_reduce.h"

#include <filesystem>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "thalweg/base/status.h"
#include "thalweg/client/cluster_testlib.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/state_ops.h"
#include "thalweg/runtime/session_testlib.h"
#include "thalweg/train/checkpoints/checkpoint_state.h"
#include "thalweg/train/optimizers/optimizers.h"
#include "thalweg/train/replicas/towers.h"
#include "thalweg/train/session/hooks.h"
#include "thalweg/train/session/monitored_session.h"
#include "thalweg/train/train_testlib.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

class AllReduceTest : public FolderTest {
 protected:
  struct Program {
    int workers = 2;
    int64_t last_step = 10;
    int64_t bucket_bytes = 25 << 20;
    DType wire = kFloat;
    int64_t check_every = 1;
    int64_t begin_again_after = 0;  // a worker begins again, once, after so many steps
    int begins_again = 1;           // which one
    int64_t dies_after = 0;         // the last worker and its server end after so many steps
    // Much longer than the others need to hear that a worker begins again.
    absl::Duration lost_after = absl::Seconds(30);
    LostWorker on_lost_worker = LostWorker::kWait;
    bool rank_order = false;
    bool two_devices = false;  // each computes the gradients of one of the two rows
    // Called after every step, with the worker's session.
    std::function<void(int worker, int64_t step, Session& session, const Var& w)> after_step;
  };
  // The status with which a worker ended.
  struct Result {
    absl::Status status;
    std::vector<float> values;
    int64_t steps = 0;
  };

  // A table, of which rows are looked up, and a matrix: worker i trains with data of its own.
  Result RunWorker(const std::string& target, int worker, const Program& program) {
    Result result;
    Graph graph;
    graph.set_seed(worker + 1);  // workers begin with different values
    const Scope s = graph.root().WithDevice(absl::StrCat("/job:worker/replica:0/task:", worker));
    const Var w = MakeVariable(s, "w", {3, 2});
    const Var table = MakeVariable(s, "table", {5, 3});
    const Output ids = Placeholder(s, kInt32, {2});
    const auto loss_of = [&](const Scope& on, Output some_ids) {
      return ReduceMean(on, Square(on, Sub(on, MatMul(on, Gather(on, table, some_ids), w), Const(on, 1.f))));
    };
    auto optimizer = AllReduce(Adam({.learning_rate = 0.1f}), {.workers = program.workers,
                                                               .bucket_bytes = program.bucket_bytes,
                                                               .wire = program.wire,
                                                               .rank_order = program.rank_order,
                                                               .on_lost_worker = program.on_lost_worker,
                                                               .lost_after = program.lost_after,
                                                               .check_every_n_steps = program.check_every});
    const Var step = GetOrCreateGlobalStep(s);
    Output train_op;
    if (program.two_devices) {
      std::vector<std::vector<GradientAndVar>> towers;
      for (const int i : {0, 1}) {
        const Scope on = s.WithDevice(absl::StrCat("/job:worker/replica:0/task:", worker, "/device:CPU:", i));
        towers.push_back(
            optimizer->ComputeGradients(on, loss_of(on, Slice(on, ids, Const(on, Tensor::Vector<int32_t>({i})),
                                                              Const(on, Tensor::Vector<int32_t>({1}))))));
      }
      train_op = optimizer->ApplyGradients(s, AverageGradients(s, towers), {.global_step = step});
    } else {
      train_op = optimizer->Minimize(s, loss_of(s, ids), {.global_step = step});
    }
    auto session = MonitoredTrainingSession::Start(
        graph, {.master = target,
                .is_chief = worker == 0,
                .own_variables = true,
                .checkpoint_dir = folder_,
                .hooks = optimizer->Hooks(worker == 0) + HookList{StopAtStep(program.last_step)},
                .save_checkpoint_steps = 5,
                .log_step_count_steps = 0,
                .max_wait = absl::Minutes(1)});
    result.status = session.status();
    if (!session.ok()) return result;
    while (!session->ShouldStop()) {
      const auto out = session->Run({train_op}, {{ids, Tensor::Vector<int32_t>({worker, worker + 1})}});
      result.status = out.status();
      if (!out.ok()) return result;
      ++result.steps;
      if (program.after_step) program.after_step(worker, result.steps, session->session(), w);
      if (worker == program.workers - 1 && result.steps == program.dies_after) {
        cluster_->Stop({"worker", worker});
        return result;
      }
      if (worker == program.begins_again && result.steps == program.begin_again_after) {
        session = Cancelled("begins again");  // closes the session
        Program rest = program;
        rest.begin_again_after = 0;
        return RunWorker(target, worker, rest);
      }
    }
    const auto values = session->session().Run({w, table});
    result.status = values.status();
    if (!values.ok()) return result;
    for (const Tensor& t : *values)
      result.values.insert(result.values.end(), t.flat<float>().begin(), t.flat<float>().end());
    result.status = session->Close();
    return result;
  }

  std::vector<Result> RunAll(const Program& program) {
    TestCluster cluster({{"worker", program.workers}}, {}, TasksIn::kThisProcess,
                        {.cpu_devices = program.two_devices ? 2 : 1});
    cluster_ = &cluster;
    std::vector<Result> results(program.workers);
    std::vector<std::thread> threads;
    for (int i = 0; i < program.workers; ++i) {
      threads.emplace_back(
          [&, i, target = cluster.target({"worker", i})] { results[i] = RunWorker(target, i, program); });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

  TestCluster* cluster_ = nullptr;
};

TEST_F(AllReduceTest, WorkersStayBitwiseEqual) {
  for (const int64_t bucket_bytes : {1, 40, 25 << 20}) {
    const std::vector<Result> results =
        RunAll({.workers = 3, .bucket_bytes = bucket_bytes, .rank_order = bucket_bytes == 40});
    for (const Result& result : results) {
      ASSERT_TRUE(result.status.ok()) << result.status;
      EXPECT_EQ(result.values, results[0].values);
    }
    for (const Result& result : results) EXPECT_EQ(result.steps, results[0].steps);
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
}

// The devices of a worker average their gradients first. Two rows on one device have the same mean.
TEST_F(AllReduceTest, DevicesOfAWorkerReduceTheirGradientsFirst) {
  std::vector<std::vector<float>> values;
  for (const bool two_devices : {false, true}) {
    const std::vector<Result> results = RunAll({.two_devices = two_devices});
    for (const Result& result : results) {
      ASSERT_TRUE(result.status.ok()) << result.status;
      EXPECT_EQ(result.values, results[0].values);
    }
    values.push_back(results[0].values);
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  for (size_t k = 0; k < values[0].size(); ++k) EXPECT_NEAR(values[0][k], values[1][k], 1e-3) << k;
}

// With fewer bits the values differ from those with all bits, but not from each other.
TEST_F(AllReduceTest, WorkersStayBitwiseEqualWithCompression) {
  std::vector<std::vector<float>> values;
  for (const DType wire : {kFloat, kHalf, kBfloat16}) {
    const std::vector<Result> results = RunAll({.workers = 3, .wire = wire});
    for (const Result& result : results) {
      ASSERT_TRUE(result.status.ok()) << result.status;
      EXPECT_EQ(result.values, results[0].values);
    }
    values.push_back(results[0].values);
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  for (const size_t i : {1, 2}) {
    EXPECT_NE(values[i], values[0]);
    for (size_t k = 0; k < values[0].size(); ++k) EXPECT_NEAR(values[i][k], values[0][k], 0.5) << k;
  }
}

// The chief saves and restores; the others get its values.
TEST_F(AllReduceTest, ATrainingGoesOnFromTheCheckpointOfTheChief) {
  const std::vector<Result> first = RunAll({.last_step = 5});
  ASSERT_TRUE(first[0].status.ok()) << first[0].status;
  EXPECT_EQ(LatestCheckpoint(folder_).value_or("none"), Path("model.ckpt-5"));
  const std::vector<Result> second = RunAll({.last_step = 8});
  for (const Result& result : second) {
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.steps, 3);
    EXPECT_EQ(result.values, second[0].values);
  }
  EXPECT_NE(second[0].values, first[0].values);
}

// A worker that has not learned of the end of a step repeats it, and would find it in the checkpoint.
TEST_F(AllReduceTest, ACheckpointCountsWhenEveryWorkerHasGoneOn) {
  std::map<int64_t, std::string> latest;
  const std::vector<Result> results =
      RunAll({.last_step = 7, .after_step = [&](int worker, int64_t step, Session&, const Var&) {
                if (worker == 0) latest[step] = LatestCheckpoint(folder_).value_or("none");
              }});
  for (const Result& result : results) ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(latest[5], Path("model.ckpt-0"));
  EXPECT_EQ(latest[6], Path("model.ckpt-5"));
  EXPECT_EQ(LatestCheckpoint(folder_).value_or("none"), Path("model.ckpt-7"));
}

TEST_F(AllReduceTest, AWorkerThatDiffersIsFound) {
  const std::vector<Result> results =
      RunAll({.after_step = [](int worker, int64_t step, Session& session, const Var& w) {
        if (worker != 1 || step != 3) return;
        ASSERT_TRUE(session.Run({w.initializer}).ok());
      }});
  for (const Result& result : results) {
    EXPECT_TRUE(absl::IsDataLoss(result.status)) << result.status;
    EXPECT_THAT(result.status.ToString(), HasSubstr("different values of variable 'w'"));
  }
}

// The others wait for it in the middle of their step.
TEST_F(AllReduceTest, AWorkerBeginsAgain) {
  struct Case {
    int worker;
    int64_t steps;
    LostWorker on_lost_worker;
  };
  for (const auto& [worker, steps, on_lost_worker] :
       {Case{1, 1, LostWorker::kWait}, Case{1, 7, LostWorker::kWait}, Case{1, 1, LostWorker::kGoOn},
        Case{1, 7, LostWorker::kGoOn}, Case{0, 7, LostWorker::kWait}, Case{0, 7, LostWorker::kGoOn}}) {
    SCOPED_TRACE(absl::StrCat("worker ", worker, " after ", steps));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    const std::vector<Result> results = RunAll({.workers = 3,
                                                .check_every = 3,
                                                .begin_again_after = steps,
                                                .begins_again = worker,
                                                .on_lost_worker = on_lost_worker});
    for (const Result& result : results) {
      ASSERT_TRUE(result.status.ok()) << result.status;
      EXPECT_EQ(result.values, results[0].values);
    }
    EXPECT_GE(results[2].steps, 10);
  }
}

TEST_F(AllReduceTest, TheOthersGoOnWithoutALostWorker) {
  const std::vector<Result> results = RunAll({.workers = 3,
                                              .last_step = 20,
                                              .check_every = 3,
                                              .dies_after = 7,
                                              .lost_after = absl::Seconds(3),
                                              .on_lost_worker = LostWorker::kGoOn});
  ASSERT_TRUE(results[2].status.ok()) << results[2].status;
  EXPECT_EQ(results[2].steps, 7);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(results[i].status.ok()) << results[i].status;
    EXPECT_GE(results[i].steps, 20);
    EXPECT_EQ(results[i].values, results[0].values);
  }
  EXPECT_EQ(LatestCheckpoint(folder_).value_or("none"), Path("model.ckpt-20"));
}

TEST_F(AllReduceTest, ALostWorkerEndsTheTraining) {
  const std::vector<Result> results =
      RunAll({.workers = 3, .last_step = 20, .dies_after = 7, .on_lost_worker = LostWorker::kEnd});
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(absl::IsFailedPrecondition(results[i].status)) << results[i].status;
    EXPECT_THAT(results[i].status.ToString(), HasSubstr("AllReduce: a worker was lost, which ends the training"));
    EXPECT_THAT(results[i].status.ToString(), HasSubstr("/job:worker/replica:0/task:2"));
    EXPECT_EQ(results[i].steps, 7);
  }
}

TEST_F(AllReduceTest, TheChiefMustBeTaskZeroToGoOn) {
  for (const int task : {0, 1, 5}) {
    Graph graph;
    const Scope s = graph.root().WithDevice(absl::StrCat("/job:worker/task:", task));
    const Var w = MakeVariable(s, "w", {2});
    const auto optimizer =
        AllReduce(GradientDescent({.learning_rate = 0.1f}), {.workers = 2, .on_lost_worker = LostWorker::kGoOn});
    optimizer->Minimize(s, ReduceSum(s, Square(s, w)));
    absl::Status status = s.status();
    for (const auto& hook : optimizer->Hooks(/*is_chief=*/task == 1)) status.Update(hook->Begin(graph.root()));
    EXPECT_THAT(status.ToString(),
                HasSubstr(task == 5 ? "must be on one of the tasks 0 to 1" : "the chief must be task 0"));
  }
}

TEST_F(AllReduceTest, BadOptionsAreErrors) {
  for (const AllReduceOptions& options :
       {AllReduceOptions{.workers = 0}, AllReduceOptions{.workers = 2, .bucket_bytes = 0},
        AllReduceOptions{.workers = 2, .wire = kInt32},
        AllReduceOptions{.workers = 2, .lost_after = -absl::Seconds(1)}}) {
    Graph graph;
    const Scope s = graph.root();
    const Var w = MakeVariable(s, "w", {2});
    AllReduce(GradientDescent({.learning_rate = 0.1f}), options)->Minimize(s, ReduceSum(s, Square(s, w)));
    EXPECT_THAT(s.status().ToString(), HasSubstr(options.wire == kInt32                      ? "cannot travel as int32"
                                                 : options.lost_after < absl::ZeroDuration() ? "lost_after is -1s"
                                                                                             : "AllReduce: got"));
  }
}

}  // namespace
}  // namespace thalweg
