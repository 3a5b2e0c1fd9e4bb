// SPDX-License-Identifier: Apache-2.0
// cifar10_train.cc - asynchronous training of the CNN of cifar10.cc on parameter
// servers and workers. It writes checkpoints, which cifar10_eval can evaluate at
// the same time, and summaries for TensorBoard: loss, images, weight histograms.
//
//   thalweg run --ps 1 --workers 2 -- cifar10_train --data_dir=cifar-10-batches-bin --checkpoint_dir=/tmp/cifar10
#include <algorithm>
#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "cifar10_model.h"
#include "thalweg/api.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

ABSL_FLAG(std::string, data_dir, "cifar-10-batches-bin", "folder with data_batch_1.bin ... data_batch_5.bin");
ABSL_FLAG(bool, generated, false, "train on a small data set generated for this run");
ABSL_FLAG(std::string, checkpoint_dir, "/tmp/cifar10", "folder for checkpoints and TensorBoard's event files");
ABSL_FLAG(int64_t, steps, 10000, "global step at which the training stops");
ABSL_FLAG(int64_t, save_steps, 1000, "global steps between checkpoints");
ABSL_FLAG(int, batch_size, 128, "images per batch and worker");
ABSL_FLAG(double, learning_rate, 0.1, "initial learning rate; divided by 10 every 350 epochs of CIFAR-10");

namespace {

absl::Status Train(const tw::Job& job, const tw::Server& server, const std::string& folder) {
  // Each worker reads its own shard of the images.
  const int batch_size = absl::GetFlag(FLAGS_batch_size);
  ASSIGN_OR_RETURN(auto batches, tw::data::Cifar10(folder, {.batch_size = batch_size,
                                                            .seed = static_cast<uint64_t>(job.worker_index() + 1),
                                                            .shard = job.worker_index(),
                                                            .num_shards = job.num_workers()}));
  tw::Graph graph;
  const auto s = graph.root().WithDevice(tw::ReplicaDeviceSetter({.cluster = job.cluster, .worker = job.task}));
  const auto c = cifar10::BuildCnn(s);
  const auto loss = cifar10::Loss(s, c);
  const auto global_step = tw::GetOrCreateGlobalStep(s);
  const auto rate = cifar10::LearningRate(s, absl::GetFlag(FLAGS_learning_rate), global_step, batch_size);
  const auto descent = tw::GradientDescent({.learning_rate = rate})->Minimize(s, loss, {.global_step = global_step});
  tw::ExponentialMovingAverage averages(cifar10::kAverageDecay, {.num_updates = global_step});
  const auto train_op = averages.Apply(s.WithControlDependencies({descent}));

  tw::summary::Scalar(s, "loss", loss);
  tw::summary::Scalar(s, "learning_rate", rate);
  tw::summary::Image(s, "images", c.images);
  for (const tw::Var& v : tw::TrainableVariables(graph)) tw::summary::Histogram(s, v.name() + "/values", v);

  ASSIGN_OR_RETURN(auto session,
                   tw::MonitoredTrainingSession::Start(graph, {.master = server.target(),
                                                               .is_chief = job.is_chief(),
                                                               .checkpoint_dir = absl::GetFlag(FLAGS_checkpoint_dir),
                                                               .hooks = {tw::StopAtStep(absl::GetFlag(FLAGS_steps)),
                                                                         tw::NanGuard(loss), tw::StopOnSignal()},
                                                               .save_checkpoint_steps = absl::GetFlag(FLAGS_save_steps),
                                                               .log_step_count_steps = 0}));
  int64_t report = 0;
  for (const tw::data::Tensors& batch : batches) {
    if (session.ShouldStop()) break;
    ASSIGN_OR_RETURN(const auto out,
                     session.Run({train_op, loss, global_step}, {{c.images, batch[0]}, {c.labels, batch[1]}}));
    const auto step = out[2].scalar<int64_t>();
    if (step >= report || session.ShouldStop()) {
      report = step + std::min<int64_t>(100, absl::GetFlag(FLAGS_save_steps));
      std::printf("Train step %ld, loss: %.3f\n", step, out[1].scalar<float>());
    }
  }
  RETURN_IF_ERROR(batches.status());
  return session.Close();
}

absl::Status RunWorker(const tw::Job& job, const tw::Server& server) {
  if (!absl::GetFlag(FLAGS_generated)) return Train(job, server, absl::GetFlag(FLAGS_data_dir));
  ASSIGN_OR_RETURN(const auto folder, tw::data::TemporaryFolder::Create());
  RETURN_IF_ERROR(tw::data::GenerateCifar10(folder.path()));  // every worker generates the same images
  return Train(job, server, folder.path());
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Trains an image classifier on CIFAR-10 on a cluster.");
  absl::ParseCommandLine(argc, argv);
  return tw::RunCluster(argc, argv, RunWorker);
}
