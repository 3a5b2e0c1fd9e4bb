// SPDX-License-Identifier: Apache-2.0
// towers.cc - synchronous training of one model on several devices of a worker.
// Each device holds a tower: a copy of the model that computes the gradients of its
// own batch. One update applies the mean of all towers' gradients.
//
//   towers --towers=2                                     one process, two devices
//   thalweg run --ps 2 --workers 2 -- towers --towers=2   towers of a worker synchronous, workers asynchronous
//   ... --is_sync                                         towers and workers synchronous
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "thalweg/api.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

ABSL_FLAG(int, towers, 2, "number of towers per worker, each on a device of its own");
ABSL_FLAG(bool, is_sync, false, "use synchronous training across workers, too");
ABSL_FLAG(std::string, data_dir, tw::data::Mnist::kDefaultFolder, "folder with the four IDX files, gzipped or not");
ABSL_FLAG(std::string, checkpoint_dir, "", "folder for checkpoints; empty: do not write any");
ABSL_FLAG(int64_t, steps, 1000, "global step at which the training stops");
ABSL_FLAG(int, batch_size, 32, "images per batch and tower");
ABSL_FLAG(float, learning_rate, 1e-3f, "Adam's learning rate");

namespace {

// The variables of the model, which all towers share.
struct Parameters {
  tw::Var hidden_kernel, hidden_bias, kernel, bias;
};

Parameters MakeParameters(const tw::Scope& s) {
  return {.hidden_kernel = tw::MakeVariable(s, "hidden/kernel", {784, 128}),
          .hidden_bias = tw::MakeVariable(s, "hidden/bias", {128}, {.initializer = tw::initializers::Zeros()}),
          .kernel = tw::MakeVariable(s, "kernel", {128, 10}),
          .bias = tw::MakeVariable(s, "bias", {10}, {.initializer = tw::initializers::Zeros()})};
}

tw::Output Loss(const tw::Scope& s, const Parameters& p, tw::Output images, tw::Output labels) {
  const auto hidden = tw::Relu(s, tw::BiasAdd(s, tw::MatMul(s, images, p.hidden_kernel), p.hidden_bias));
  const auto logits = tw::BiasAdd(s, tw::MatMul(s, hidden, p.kernel), p.bias);
  return tw::ReduceMean(s, tw::SparseSoftmaxCrossEntropy(s, logits, labels));
}

absl::Status RunWorker(const tw::Job& job, const tw::Server& server) {
  const int towers = absl::GetFlag(FLAGS_towers);
  ASSIGN_OR_RETURN(auto mnist, tw::data::Mnist::Load(absl::GetFlag(FLAGS_data_dir),
                                                     {.seed = static_cast<uint64_t>(job.worker_index() + 1)}));
  tw::Graph graph;
  const auto s = graph.root().WithDevice(tw::ReplicaDeviceSetter({.cluster = job.cluster, .worker = job.task}));
  const Parameters parameters = MakeParameters(s);
  const auto global_step = tw::GetOrCreateGlobalStep(s);
  auto optimizer = tw::Adam({.learning_rate = absl::GetFlag(FLAGS_learning_rate)});
  if (absl::GetFlag(FLAGS_is_sync)) {
    const int n = job.num_workers();
    optimizer = tw::SyncReplicas(std::move(optimizer), {.replicas_to_aggregate = n, .total_num_replicas = n});
  }

  std::vector<std::vector<tw::GradientAndVar>> gradients;
  std::vector<tw::Output> losses, images, labels;
  for (int i = 0; i < towers; ++i) {
    const auto tower = s.WithDevice(absl::StrCat("/device:CPU:", i)).SubScope(absl::StrCat("tower_", i));
    images.push_back(tw::Placeholder(tower, tw::kFloat, {-1, 784}));
    labels.push_back(tw::Placeholder(tower, tw::kInt32, {-1}));
    losses.push_back(Loss(tower, parameters, images[i], labels[i]));
    gradients.push_back(optimizer->ComputeGradients(tower, losses[i]));
  }
  const auto train_op = optimizer->ApplyGradients(s, tw::AverageGradients(s, gradients), {.global_step = global_step});
  const auto loss = tw::AddN(s, losses) / towers;

  ASSIGN_OR_RETURN(auto session, tw::MonitoredTrainingSession::Start(
                                     graph, {.master = server.target(),
                                             .is_chief = job.is_chief(),
                                             .checkpoint_dir = absl::GetFlag(FLAGS_checkpoint_dir),
                                             .hooks = optimizer->Hooks(job.is_chief()) +
                                                      tw::HookList{tw::StopAtStep(absl::GetFlag(FLAGS_steps))},
                                             .log_step_count_steps = 0}));
  float last = 0;
  for (int64_t report = 0; !session.ShouldStop();) {
    std::vector<tw::Feed> feeds;
    for (int i = 0; i < towers; ++i) {
      const auto batch = mnist.train.NextBatch(absl::GetFlag(FLAGS_batch_size));
      feeds.push_back({images[i], batch.images});
      feeds.push_back({labels[i], batch.labels});
    }
    ASSIGN_OR_RETURN(const auto out, session.Run({train_op, loss, global_step}, feeds));
    last = out[1].scalar<float>();
    if (const auto step = out[2].scalar<int64_t>(); step >= report) {
      report = step + 100;
      std::printf("Train step %ld, loss: %f\n", step, last);
    }
  }
  std::printf("done, loss: %f\n", last);
  return session.Close();
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Trains one model synchronously on several devices.");
  absl::ParseCommandLine(argc, argv);
  if (absl::GetFlag(FLAGS_towers) < 1 || absl::GetFlag(FLAGS_batch_size) < 1) {
    std::fprintf(stderr, "--towers and --batch_size must be at least 1\n");
    return 2;
  }
  return tw::RunCluster(argc, argv, RunWorker, {.server = {.cpu_devices = std::max(absl::GetFlag(FLAGS_towers), 1)}});
}
