// SPDX-License-Identifier: Apache-2.0
// large_batch.cc - synchronous training with a large batch, spread over all workers.
// A larger batch means fewer steps, so the learning rate is scaled by the batch size
// and warmed up gradually, because the first steps would diverge (Goyal et al. 2017).
//
//   thalweg run --ps 1 --workers 2 -- large_batch
//   thalweg run --ps 1 --workers 2 -- large_batch --noscale    keeps the learning rate of the small batch
//   large_batch --batch_size=32                                a small batch in one process, for comparison
#include <algorithm>
#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "test_accuracy.h"
#include "thalweg/api.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

ABSL_FLAG(std::string, data_dir, tw::data::Mnist::kDefaultFolder, "folder with the four IDX files, gzipped or not");
ABSL_FLAG(int, batch_size, 512, "images per batch and worker");
ABSL_FLAG(int, base_batch, 32, "batch size for which --base_rate was tuned");
ABSL_FLAG(double, base_rate, 0.01, "learning rate of momentum SGD with a batch of --base_batch");
ABSL_FLAG(bool, scale, true, "multiply --base_rate by the batch of all workers / --base_batch");
ABSL_FLAG(double, epochs, 4, "number of passes over the training images");
ABSL_FLAG(double, warmup_epochs, 1, "epochs over which the learning rate rises to its full value");
ABSL_FLAG(double, require_accuracy, 0, "exit with code 1 if the test accuracy is below this");

namespace {

tw::Output Model(const tw::Scope& s, tw::Output images) {
  const auto hidden = tw::layers::Dense(s, images, 128, {.activation = tw::Relu});
  return tw::layers::Dense(s, hidden, 10);
}

absl::Status RunWorker(const tw::Job& job, const tw::Server& server) {
  ASSIGN_OR_RETURN(auto mnist, tw::data::Mnist::Load(absl::GetFlag(FLAGS_data_dir),
                                                     {.seed = static_cast<uint64_t>(job.worker_index() + 1)}));
  const int workers = job.num_workers();
  const double batch_of_all = static_cast<double>(workers) * absl::GetFlag(FLAGS_batch_size);
  const double steps_per_epoch = static_cast<double>(mnist.train.size()) / batch_of_all;
  const auto steps = std::max<int64_t>(1, static_cast<int64_t>(absl::GetFlag(FLAGS_epochs) * steps_per_epoch));

  tw::Graph graph;
  const auto s = graph.root().WithDevice(tw::ReplicaDeviceSetter({.cluster = job.cluster, .worker = job.task}));
  const auto images = tw::Placeholder(s, tw::kFloat, {-1, 784});
  const auto labels = tw::Placeholder(s, tw::kInt32, {-1});
  const auto logits = Model(s, images);
  const auto loss = tw::ReduceMean(s, tw::SparseSoftmaxCrossEntropy(s, logits, labels));
  const auto accuracy = tw::Accuracy(s, logits, labels);
  const auto global_step = tw::GetOrCreateGlobalStep(s);

  const double times = absl::GetFlag(FLAGS_scale) ? batch_of_all / absl::GetFlag(FLAGS_base_batch) : 1;
  const auto rate = tw::LinearScaling(
      s, absl::GetFlag(FLAGS_base_rate), global_step,
      {.scale = times, .warmup_steps = static_cast<int64_t>(absl::GetFlag(FLAGS_warmup_epochs) * steps_per_epoch)});
  const auto optimizer = tw::SyncReplicas(tw::Momentum({.learning_rate = rate, .momentum = 0.9}),
                                          {.replicas_to_aggregate = workers, .total_num_replicas = workers});
  const auto train_op = optimizer->Minimize(s, loss, {.global_step = global_step});
  if (job.is_chief()) {
    std::printf("%ld steps with batches of %.0f, learning rate %g\n", steps, batch_of_all,
                times * absl::GetFlag(FLAGS_base_rate));
  }

  ASSIGN_OR_RETURN(auto session, tw::MonitoredTrainingSession::Start(
                                     graph, {.master = server.target(),
                                             .is_chief = job.is_chief(),
                                             .hooks = optimizer->Hooks(job.is_chief()) +
                                                      tw::HookList{tw::StopAtStep(steps), tw::NanGuard(loss)},
                                             .log_step_count_steps = 0}));
  for (int64_t report = 0; !session.ShouldStop();) {
    const auto batch = mnist.train.NextBatch(absl::GetFlag(FLAGS_batch_size));
    ASSIGN_OR_RETURN(const auto out, session.Run({train_op, loss, rate, global_step},
                                                 {{images, batch.images}, {labels, batch.labels}}));
    const auto step = out[3].scalar<int64_t>();
    if (job.is_chief() && (step >= report || session.ShouldStop())) {
      report = step + std::max<int64_t>(1, steps / 8);
      std::printf("Train step %ld, loss: %.3f, learning rate %.3f\n", step, out[1].scalar<float>(),
                  out[2].scalar<float>());
    }
  }
  double reached = 1;
  if (job.is_chief()) {
    ASSIGN_OR_RETURN(reached, TestAccuracy(session.session(), accuracy, images, labels, mnist.test));
    std::printf("test accuracy %.2f %%\n", 100 * reached);
  }
  RETURN_IF_ERROR(session.Close());
  return RequireAccuracy(reached, absl::GetFlag(FLAGS_require_accuracy));
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Trains synchronously on several workers with a large batch.");
  absl::ParseCommandLine(argc, argv);
  if (absl::GetFlag(FLAGS_batch_size) < 1 || absl::GetFlag(FLAGS_base_batch) < 1) {
    std::fprintf(stderr, "--batch_size and --base_batch must be at least 1\n");
    return 2;
  }
  return tw::RunCluster(argc, argv, RunWorker);
}
