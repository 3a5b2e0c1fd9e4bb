// mnist.cc - a classifier for MNIST, or any set of images in its format, trained
// in one process: 784 -> 500 -> 500 -> 10, Adam.
#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "test_accuracy.h"
#include "thalweg/api.h"

namespace tw = thalweg;

ABSL_FLAG(std::string, data_dir, tw::data::Mnist::kDefaultFolder, "folder with the four IDX files, gzipped or not");
ABSL_FLAG(int, steps, 5000, "how many batches to train on");
ABSL_FLAG(int, batch_size, 64, "images in a batch");
ABSL_FLAG(float, learning_rate, 1e-3f, "of Adam");
ABSL_FLAG(int, threads, 0, "threads to compute with; 0: one per core");
ABSL_FLAG(double, require_accuracy, 0, "exit with code 1 if the test accuracy is below this");

namespace {

struct Classifier {
  tw::Output images, labels, loss, accuracy, train_op, init_op;
};

Classifier BuildClassifier(const tw::Scope& s) {
  Classifier c;
  c.images = tw::Placeholder(s, tw::kFloat, {-1, 784});
  c.labels = tw::Placeholder(s, tw::kInt32, {-1});
  auto net = tw::layers::Dense(s, c.images, 500, {.activation = tw::Relu});
  net = tw::layers::Dense(s, net, 500, {.activation = tw::Relu});
  const auto logits = tw::layers::Dense(s, net, 10);
  c.loss = tw::ReduceMean(s, tw::SparseSoftmaxCrossEntropy(s, logits, c.labels));
  c.accuracy = tw::Accuracy(s, logits, c.labels);
  c.train_op = tw::Adam({.learning_rate = absl::GetFlag(FLAGS_learning_rate)})->Minimize(s, c.loss);
  c.init_op = tw::InitializeVariables(s);
  return c;
}

absl::Status Train() {
  ASSIGN_OR_RETURN(auto mnist, tw::data::Mnist::Load(absl::GetFlag(FLAGS_data_dir)));
  std::printf("%ld images to train on, %ld to test on, from %s\n", mnist.train.size(), mnist.test.size(),
              absl::GetFlag(FLAGS_data_dir).c_str());

  tw::Graph graph;
  const Classifier c = BuildClassifier(graph.root());
  ASSIGN_OR_RETURN(auto session, tw::Session::Create(graph, {.threads = absl::GetFlag(FLAGS_threads)}));
  RETURN_IF_ERROR(session->Run({c.init_op}).status());

  const int steps = absl::GetFlag(FLAGS_steps);
  {
    tw::Progress progress({.total_steps = steps, .terminal = tw::IsTerminal(stdout)});
    ASSIGN_OR_RETURN(const auto step, session->Prepare({c.train_op, c.loss}, {c.images, c.labels}));
    for (int i = 1; i <= steps; ++i) {
      const auto batch = mnist.train.NextBatch(absl::GetFlag(FLAGS_batch_size));
      ASSIGN_OR_RETURN(const auto out, step.Run({batch.images, batch.labels}));
      progress.Update(i, out[1].scalar<float>());
    }
  }
  ASSIGN_OR_RETURN(const double accuracy, TestAccuracy(*session, c.accuracy, c.images, c.labels, mnist.test));
  std::printf("test accuracy %.2f %%\n", 100 * accuracy);
  if (accuracy < absl::GetFlag(FLAGS_require_accuracy)) {
    return tw::FailedPrecondition("test accuracy ", accuracy, " is below ", absl::GetFlag(FLAGS_require_accuracy));
  }
  return session->Close();
}

}  // namespace

int main(int argc, char** argv) {
  tw::ConfigureMalloc();
  absl::SetProgramUsageMessage("Trains a classifier on MNIST or a set like it.");
  absl::ParseCommandLine(argc, argv);
  if (absl::GetFlag(FLAGS_batch_size) < 1 || absl::GetFlag(FLAGS_steps) < 0) {
    std::fprintf(stderr, "--batch_size must be at least 1 and --steps at least 0\n");
    return 2;
  }
  const absl::Status status = Train();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
