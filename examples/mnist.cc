// SPDX-License-Identifier: Apache-2.0
// mnist.cc - trains a classifier on MNIST, or any data set in its format, in one
// process: a 784-500-500-10 network with Adam. distributed_mnist.cc trains the same
// network on a cluster.
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
ABSL_FLAG(int, steps, 5000, "number of training steps");
ABSL_FLAG(int, batch_size, 64, "images per batch");
ABSL_FLAG(float, learning_rate, 1e-3f, "Adam's learning rate");
ABSL_FLAG(int, threads, 0, "compute threads; 0: one per core");
ABSL_FLAG(double, require_accuracy, 0, "exit with code 1 if the test accuracy is below this");

namespace {

absl::Status Train() {
  ASSIGN_OR_RETURN(auto mnist, tw::data::Mnist::Load(absl::GetFlag(FLAGS_data_dir)));
  std::printf("%ld images to train on, %ld to test on, from %s\n", mnist.train.size(), mnist.test.size(),
              absl::GetFlag(FLAGS_data_dir).c_str());

  tw::Graph graph;
  const auto s = graph.root();
  const auto images = tw::Placeholder(s, tw::kFloat, {-1, 784});
  const auto labels = tw::Placeholder(s, tw::kInt32, {-1});
  auto net = tw::layers::Dense(s, images, 500, {.activation = tw::Relu});
  net = tw::layers::Dense(s, net, 500, {.activation = tw::Relu});
  const auto logits = tw::layers::Dense(s, net, 10);
  const auto loss = tw::ReduceMean(s, tw::SparseSoftmaxCrossEntropy(s, logits, labels));
  const auto accuracy = tw::Accuracy(s, logits, labels);
  const auto train_op = tw::Adam({.learning_rate = absl::GetFlag(FLAGS_learning_rate)})
                            ->Minimize(s, loss, {.global_step = tw::GetOrCreateGlobalStep(s)});

  const int64_t steps = absl::GetFlag(FLAGS_steps);
  ASSIGN_OR_RETURN(auto session,
                   tw::MonitoredTrainingSession::Start(graph, {.hooks = {tw::StopAtStep(steps), tw::NanGuard(loss)},
                                                               .log_step_count_steps = 0,
                                                               .config = {.threads = absl::GetFlag(FLAGS_threads)}}));
  {
    tw::Progress progress({.total_steps = steps, .terminal = tw::IsTerminal(stdout)});
    for (int64_t step = 1; !session.ShouldStop(); ++step) {
      const auto batch = mnist.train.NextBatch(absl::GetFlag(FLAGS_batch_size));
      ASSIGN_OR_RETURN(const auto out, session.Run({train_op, loss}, {{images, batch.images}, {labels, batch.labels}}));
      progress.Update(step, out[1].scalar<float>());
    }
  }
  ASSIGN_OR_RETURN(const double reached, TestAccuracy(session.session(), accuracy, images, labels, mnist.test));
  std::printf("test accuracy %.2f %%\n", 100 * reached);
  RETURN_IF_ERROR(session.Close());
  return RequireAccuracy(reached, absl::GetFlag(FLAGS_require_accuracy));
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Trains an image classifier on MNIST or a data set in its format.");
  absl::ParseCommandLine(argc, argv);
  if (absl::GetFlag(FLAGS_batch_size) < 1 || absl::GetFlag(FLAGS_steps) < 0) {
    std::fprintf(stderr, "--batch_size must be at least 1 and --steps at least 0\n");
    return 2;
  }
  const absl::Status status = Train();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
