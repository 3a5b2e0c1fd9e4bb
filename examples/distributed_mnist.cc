// SPDX-License-Identifier: Apache-2.0
// distributed_mnist.cc - trains on MNIST, or a data set in its format, with
// parameter servers and workers: between-graph replication, asynchronous by default,
// synchronous with --is_sync.
//
//   thalweg run --ps 2 --workers 2 -- distributed_mnist --is_sync
//
// With --all_reduce there are no parameter servers:
//
//   thalweg run --ps 0 --workers 2 -- distributed_mnist --all_reduce
//
// Every task of the cluster runs this program. It reads its task from its flags
// (--ps_hosts --worker_hosts --job_name --task_index), from TF_CONFIG, or from the
// environment that Slurm or MPI sets. Without any of these it trains alone.
#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "test_accuracy.h"
#include "thalweg/api.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

ABSL_FLAG(bool, is_sync, false,
          "use synchronous training: one update per step with the mean of all workers' gradients");
ABSL_FLAG(
    absl::Duration, expel_after, absl::InfiniteDuration(),
    "with --is_sync: how long a step waits for a worker's gradient before the others continue without the worker");
ABSL_FLAG(
    bool, all_reduce, false,
    "use synchronous training without parameter servers: every worker holds all variables, and the workers average "
    "their gradients among themselves");
ABSL_FLAG(std::string, on_lost_worker, "wait",
          "with --all_reduce, what the others do when a worker is lost: wait (for it, or for one in its place), go_on "
          "(without it, after --lost_after) or end (the training, with an error)");
ABSL_FLAG(absl::Duration, lost_after, absl::Seconds(10),
          "with --on_lost_worker=go_on, how long the others wait for a lost worker");
ABSL_FLAG(std::string, data_dir, tw::data::Mnist::kDefaultFolder, "folder with the four IDX files, gzipped or not");
ABSL_FLAG(std::string, checkpoint_dir, "./checkpoint_dir", "folder for checkpoints and TensorBoard's event files");
ABSL_FLAG(int64_t, steps, 2000, "global step at which the training stops");
ABSL_FLAG(int64_t, save_steps, 500, "global steps between checkpoints");
ABSL_FLAG(int, batch_size, 32, "images per batch and worker");
ABSL_FLAG(float, learning_rate, 1e-4f, "Adam's learning rate");
ABSL_FLAG(double, require_accuracy, 0, "exit with code 1 if the test accuracy is below this");

namespace {

// A simple classifier: 784 -> 500 -> 500 -> 10.
tw::Output Model(const tw::Scope& s, tw::Output images) {
  auto net = tw::layers::Dense(s, images, 500, {.activation = tw::Relu});
  net = tw::layers::Dense(s, net, 500, {.activation = tw::Relu});
  return tw::layers::Dense(s, net, 10);
}

absl::StatusOr<tw::LostWorker> OnLostWorker() {
  const std::string text = absl::GetFlag(FLAGS_on_lost_worker);
  if (text == "wait") return tw::LostWorker::kWait;
  if (text == "go_on") return tw::LostWorker::kGoOn;
  if (text == "end") return tw::LostWorker::kEnd;
  return absl::InvalidArgumentError("--on_lost_worker is '" + text + "', expected wait, go_on or end");
}

absl::Status RunWorker(const tw::Job& job, const tw::Server& server) {
  ASSIGN_OR_RETURN(auto mnist, tw::data::Mnist::Load(absl::GetFlag(FLAGS_data_dir),
                                                     {.seed = static_cast<uint64_t>(job.worker_index() + 1)}));

  // Place variables on the parameter servers (balanced by bytes), everything else on
  // this worker. With --all_reduce, every worker has variables of its own.
  const bool all_reduce = absl::GetFlag(FLAGS_all_reduce);
  tw::Graph graph;
  const auto s = all_reduce
                     ? graph.root().WithDevice(job.task.ToString())
                     : graph.root().WithDevice(tw::ReplicaDeviceSetter({.cluster = job.cluster, .worker = job.task}));

  const auto images = tw::Placeholder(s, tw::kFloat, {-1, 784});
  const auto labels = tw::Placeholder(s, tw::kInt32, {-1});
  const auto logits = Model(s, images);
  const auto loss = tw::ReduceMean(s, tw::SparseSoftmaxCrossEntropy(s, logits, labels));
  const auto accuracy = tw::Accuracy(s, logits, labels);
  const auto global_step = tw::GetOrCreateGlobalStep(s);
  tw::summary::Scalar(s, "loss", loss);

  auto optimizer = tw::Adam({.learning_rate = absl::GetFlag(FLAGS_learning_rate)});
  if (absl::GetFlag(FLAGS_is_sync)) {
    const int n = job.num_workers();
    optimizer = tw::SyncReplicas(
        std::move(optimizer),
        {.replicas_to_aggregate = n, .total_num_replicas = n, .expel_after = absl::GetFlag(FLAGS_expel_after)});
  }
  if (all_reduce) {
    ASSIGN_OR_RETURN(const tw::LostWorker on_lost_worker, OnLostWorker());
    optimizer = tw::AllReduce(std::move(optimizer), {.workers = job.num_workers(),
                                                     .on_lost_worker = on_lost_worker,
                                                     .lost_after = absl::GetFlag(FLAGS_lost_after)});
  }
  const auto train_op = optimizer->Minimize(s, loss, {.global_step = global_step});

  // The session handles initialization, restore, checkpoints and recovery. If a task
  // is lost, Run() returns an error that names it; it does not hang.
  ASSIGN_OR_RETURN(auto session, tw::MonitoredTrainingSession::Start(
                                     graph, {.master = server.target(),
                                             .is_chief = job.is_chief(),
                                             .own_variables = all_reduce,
                                             .checkpoint_dir = absl::GetFlag(FLAGS_checkpoint_dir),
                                             .hooks = optimizer->Hooks(job.is_chief()) +
                                                      tw::HookList{tw::StopAtStep(absl::GetFlag(FLAGS_steps)),
                                                                   tw::NanGuard(loss), tw::StopOnSignal()},
                                             .save_checkpoint_steps = absl::GetFlag(FLAGS_save_steps),
                                             .log_step_count_steps = 0}));
  for (int64_t report = 0; !session.ShouldStop();) {
    const auto batch = mnist.train.NextBatch(absl::GetFlag(FLAGS_batch_size));
    ASSIGN_OR_RETURN(const auto out,
                     session.Run({train_op, loss, global_step}, {{images, batch.images}, {labels, batch.labels}}));
    const auto step = out[2].scalar<int64_t>();
    if (step >= report || session.ShouldStop()) {  // the global step counts the steps of all workers
      report = step + 100;
      std::printf("Train step %ld, loss: %f\n", step, out[1].scalar<float>());
    }
  }

  double reached = 1;
  if (job.is_chief()) {
    ASSIGN_OR_RETURN(reached, TestAccuracy(session.session(), accuracy, images, labels, mnist.test));
    std::printf("test accuracy %.2f %%\n", 100 * reached);
    std::printf("checkpoints and TensorBoard's files are in %s\n", absl::GetFlag(FLAGS_checkpoint_dir).c_str());
  }
  RETURN_IF_ERROR(session.Close());  // once every worker has closed its session, Join() returns on the servers
  return RequireAccuracy(reached, absl::GetFlag(FLAGS_require_accuracy));
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Trains an image classifier on a cluster.");
  absl::ParseCommandLine(argc, argv);
  return tw::RunCluster(argc, argv, RunWorker);
}
