// SPDX-License-Identifier: Apache-2.0
// cifar10.cc - the CNN of TensorFlow's CIFAR-10 tutorial, trained in one
// process on the binary files of https://www.cs.toronto.edu/~kriz/cifar.html or
// on a small generated data set.
//
//   cifar10 --data_dir=cifar-10-batches-bin
//   cifar10 --generated --steps=100
#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "cifar10_model.h"
#include "thalweg/api.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

ABSL_FLAG(std::string, data_dir, "cifar-10-batches-bin",
          "folder with data_batch_1.bin ... data_batch_5.bin and test_batch.bin");
ABSL_FLAG(bool, generated, false, "train on a small data set generated for this run");
ABSL_FLAG(int, steps, 10000, "number of training steps");
ABSL_FLAG(int, batch_size, 128, "images per batch");
ABSL_FLAG(double, learning_rate, 0.1, "initial learning rate; divided by 10 every 350 epochs of CIFAR-10");
ABSL_FLAG(double, require_accuracy, 0, "exit with code 1 if the test accuracy is below this");

namespace {

struct Model {
  cifar10::Cnn cnn;
  tw::Output loss, train_op, use_averages, init_op;
};

Model BuildModel(const tw::Scope& s) {
  Model m;
  m.cnn = cifar10::BuildCnn(s);
  m.loss = cifar10::Loss(s, m.cnn);
  const auto step = tw::GetOrCreateGlobalStep(s);
  const auto rate = cifar10::LearningRate(s, absl::GetFlag(FLAGS_learning_rate), step, absl::GetFlag(FLAGS_batch_size));
  const auto descent = tw::GradientDescent({.learning_rate = rate})->Minimize(s, m.loss, {.global_step = step});

  tw::ExponentialMovingAverage averages(cifar10::kAverageDecay, {.num_updates = step});
  m.train_op = averages.Apply(s.WithControlDependencies({descent}));
  std::vector<tw::Output> assigned;
  for (const tw::Var& v : tw::TrainableVariables(s.graph())) {
    assigned.push_back(tw::Assign(s, v.ref, averages.Average(v)));
  }
  m.use_averages = tw::Group(s, assigned);
  m.init_op = tw::InitializeVariables(s);
  return m;
}

absl::Status Train(const std::string& folder) {
  ASSIGN_OR_RETURN(auto batches, tw::data::Cifar10(folder, {.batch_size = absl::GetFlag(FLAGS_batch_size)}));
  tw::Graph graph;
  const Model m = BuildModel(graph.root());
  ASSIGN_OR_RETURN(auto session, tw::Session::Create(graph));
  RETURN_IF_ERROR(session->Run({m.init_op}).status());
  {
    const int steps = absl::GetFlag(FLAGS_steps);
    tw::Progress progress({.total_steps = steps, .terminal = tw::IsTerminal(stdout)});
    ASSIGN_OR_RETURN(const auto train, session->Prepare({m.train_op, m.loss}, {m.cnn.images, m.cnn.labels}));
    int step = 0;
    for (const tw::data::Tensors& batch : batches) {
      if (step == steps) break;
      ASSIGN_OR_RETURN(const auto out, train.Run(batch));
      progress.Update(++step, out[1].scalar<float>());
    }
    RETURN_IF_ERROR(batches.status());
  }
  RETURN_IF_ERROR(session->Run({m.use_averages}).status());
  ASSIGN_OR_RETURN(const double accuracy, cifar10::TestAccuracy(*session, m.cnn, folder));
  std::printf("test accuracy %.2f %%\n", 100 * accuracy);
  if (accuracy < absl::GetFlag(FLAGS_require_accuracy)) {
    return tw::FailedPrecondition("test accuracy ", accuracy, " is below ", absl::GetFlag(FLAGS_require_accuracy));
  }
  return session->Close();
}

absl::Status Run() {
  if (!absl::GetFlag(FLAGS_generated)) return Train(absl::GetFlag(FLAGS_data_dir));
  ASSIGN_OR_RETURN(const auto folder, tw::data::TemporaryFolder::Create());
  RETURN_IF_ERROR(tw::data::GenerateCifar10(folder.path()));
  return Train(folder.path());
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Trains an image classifier on CIFAR-10.");
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
