// cifar10.cc - the CNN of TensorFlow's CIFAR-10 tutorial, trained in one
// process on the binary files of https://www.cs.toronto.edu/~kriz/cifar.html, or
// on a small generated set.
//
//   cifar10 --data_dir=cifar-10-batches-bin
//   cifar10 --generated --steps=100
#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "thalweg/api.h"

namespace tw = thalweg;

ABSL_FLAG(std::string, data_dir, "cifar-10-batches-bin", "folder with data_batch_1.bin to 5 and test_batch.bin");
ABSL_FLAG(bool, generated, false, "train on a small set that is made for this run");
ABSL_FLAG(int, steps, 10000, "how many batches to train on");
ABSL_FLAG(int, batch_size, 128, "images in a batch");
ABSL_FLAG(double, learning_rate, 0.1, "at the beginning; a tenth of it after 350 epochs of the real set");
ABSL_FLAG(double, require_accuracy, 0, "exit with code 1 if the test accuracy is below this");

namespace {

struct Cnn {
  tw::Output images, labels, loss, accuracy, train_op, use_averages, init_op;
};

tw::Output Convolution(const tw::Scope& s, tw::Output x, double bias) {
  return tw::layers::Conv2D(s, x, 64, 5,
                            {.padding = "SAME",
                             .activation = tw::Relu,
                             .kernel_initializer = tw::initializers::TruncatedNormal({.stddev = 0.05}),
                             .bias_initializer = tw::initializers::Constant(bias)});
}

tw::Output Pool(const tw::Scope& s, tw::Output x) { return tw::layers::MaxPooling2D(s, x, 3, 2, {.padding = "SAME"}); }

tw::Output Norm(const tw::Scope& s, tw::Output x) {
  return tw::Lrn(s, x, {.depth_radius = 4, .bias = 1, .alpha = 0.001f / 9, .beta = 0.75f});
}

tw::Output Local(const tw::Scope& s, tw::Output x, int64_t units) {
  return tw::layers::Dense(s, x, units,
                           {.activation = tw::Relu,
                            .kernel_initializer = tw::initializers::TruncatedNormal({.stddev = 0.04}),
                            .bias_initializer = tw::initializers::Constant(0.1)});
}

Cnn BuildCnn(const tw::Scope& s) {
  Cnn c;
  c.images = tw::Placeholder(s, tw::kFloat, {-1, 24, 24, 3});
  c.labels = tw::Placeholder(s, tw::kInt32, {-1});
  auto net = Norm(s, Pool(s, Convolution(s, c.images, 0)));
  net = Pool(s, Norm(s, Convolution(s, net, 0.1)));
  net = Local(s, Local(s, tw::layers::Flatten(s, net), 384), 192);
  const auto logits = tw::layers::Dense(s, net, tw::data::kCifar10Classes);
  c.accuracy = tw::Accuracy(s, logits, c.labels);

  // Large weights of the two local layers cost.
  c.loss = tw::ReduceMean(s, tw::SparseSoftmaxCrossEntropy(s, logits, c.labels));
  for (const char* name : {"dense/kernel", "dense_1/kernel"}) {
    c.loss = tw::Add(s, c.loss, tw::Mul(s, tw::L2Loss(s, tw::GetVariable(s.graph(), name)), tw::Const(s, 0.004f)));
  }

  const auto step = tw::GetOrCreateGlobalStep(s);
  const double steps_of_epoch = 50000.0 / absl::GetFlag(FLAGS_batch_size);
  const auto rate = tw::ExponentialDecay(s, absl::GetFlag(FLAGS_learning_rate), step,
                                         {.decay_steps = 350 * steps_of_epoch, .decay_rate = 0.1, .staircase = true});
  const auto descent = tw::GradientDescent({.learning_rate = rate})->Minimize(s, c.loss, {.global_step = step});

  // Averages of the weights test better than the weights.
  tw::ExponentialMovingAverage averages(0.9999, {.num_updates = step});
  c.train_op = averages.Apply(s.WithControlDependencies({descent}));
  std::vector<tw::Output> assigned;
  for (const tw::Var& v : tw::TrainableVariables(s.graph())) {
    assigned.push_back(tw::Assign(s, v.ref, averages.Average(v)));
  }
  c.use_averages = tw::Group(s, assigned);
  c.init_op = tw::InitializeVariables(s);
  return c;
}

absl::StatusOr<double> TestAccuracy(tw::Session& session, const Cnn& c, const std::string& folder) {
  ASSIGN_OR_RETURN(auto test, tw::data::Cifar10(folder, {.train = false, .batch_size = 100}));
  double correct = 0, count = 0;
  for (const tw::data::Tensors& batch : test) {
    ASSIGN_OR_RETURN(const auto out, session.Run({c.accuracy}, {{c.images, batch[0]}, {c.labels, batch[1]}}));
    correct += out[0].scalar<float>() * static_cast<double>(batch[1].dim(0));
    count += static_cast<double>(batch[1].dim(0));
  }
  RETURN_IF_ERROR(test.status());
  return correct / count;
}

absl::Status Train(const std::string& folder) {
  ASSIGN_OR_RETURN(auto batches, tw::data::Cifar10(folder, {.batch_size = absl::GetFlag(FLAGS_batch_size)}));
  tw::Graph graph;
  const Cnn c = BuildCnn(graph.root());
  ASSIGN_OR_RETURN(auto session, tw::Session::Create(graph));
  RETURN_IF_ERROR(session->Run({c.init_op}).status());
  {
    const int steps = absl::GetFlag(FLAGS_steps);
    tw::Progress progress({.total_steps = steps, .terminal = tw::IsTerminal(stdout)});
    ASSIGN_OR_RETURN(const auto train, session->Prepare({c.train_op, c.loss}, {c.images, c.labels}));
    int step = 0;
    for (const tw::data::Tensors& batch : batches) {
      if (step == steps) break;
      ASSIGN_OR_RETURN(const auto out, train.Run(batch));
      progress.Update(++step, out[1].scalar<float>());
    }
    RETURN_IF_ERROR(batches.status());
  }
  RETURN_IF_ERROR(session->Run({c.use_averages}).status());
  ASSIGN_OR_RETURN(const double accuracy, TestAccuracy(*session, c, folder));
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
  tw::ConfigureMalloc();
  absl::SetProgramUsageMessage("Trains a classifier of images on CIFAR-10.");
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
