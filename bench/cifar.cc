// SPDX-License-Identifier: Apache-2.0
// The CNN of TensorFlow's CIFAR-10 tutorial (24x24 crops; conv 5x5x64, pool
// 3x3/2, LRN, twice; 384 and 192 units; weight decay; gradient descent), data
// fed each step: images per second. bench/cifar.py runs it side by side with
// TensorFlow.
//
//   cifar --batch=128 --threads=0 --seconds=5      -> "images_per_second 1234.5"
#include <cstdio>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "thalweg/api.h"
#include "thalweg/base/clock.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

ABSL_FLAG(int, batch, 128, "images in a batch");
ABSL_FLAG(int, threads, 0, "threads; 0: one per core");
ABSL_FLAG(double, seconds, 5, "how long to measure");

namespace {

tw::Output ConvLayer(const tw::Scope& s, tw::Output x, int64_t in, int64_t out, double bias) {
  const tw::Var kernel = tw::MakeVariable(s, "weights", {5, 5, in, out},
                                          {.initializer = tw::initializers::TruncatedNormal({.stddev = 0.05})});
  const tw::Var biases = tw::MakeVariable(s, "biases", {out}, {.initializer = tw::initializers::Constant(bias)});
  return tw::Relu(s, tw::BiasAdd(s, tw::Conv2D(s, x, kernel, {1, 1, 1, 1}, tw::Padding::kSame), biases));
}

tw::Output Pool(const tw::Scope& s, tw::Output x) {
  return tw::MaxPool(s, x, {1, 3, 3, 1}, {1, 2, 2, 1}, tw::Padding::kSame);
}
tw::Output Norm(const tw::Scope& s, tw::Output x) {
  return tw::Lrn(s, x, {.depth_radius = 4, .bias = 1, .alpha = 0.001f / 9, .beta = 0.75f});
}

// Adds to `decay` what weight decay of the layer's weights costs.
tw::Output Local(const tw::Scope& s, tw::Output x, int64_t in, int64_t out, tw::Output* decay) {
  const tw::Var kernel =
      tw::MakeVariable(s, "weights", {in, out}, {.initializer = tw::initializers::TruncatedNormal({.stddev = 0.04})});
  const tw::Var biases = tw::MakeVariable(s, "biases", {out}, {.initializer = tw::initializers::Constant(0.1)});
  const tw::Output cost = tw::Mul(s, tw::L2Loss(s, kernel), tw::Const(s, 0.004f));
  *decay = decay->node == nullptr ? cost : tw::Add(s, *decay, cost);
  return tw::Relu(s, tw::BiasAdd(s, tw::MatMul(s, x, kernel), biases));
}

absl::StatusOr<double> ImagesPerSecond(int batch) {
  tw::Graph graph;
  const tw::Scope s = graph.root();
  const auto images = tw::Placeholder(s, tw::kFloat, {batch, 24, 24, 3});
  const auto labels = tw::Placeholder(s, tw::kInt32, {batch});
  auto net = Norm(s, Pool(s, ConvLayer(s.SubScope("conv1"), images, 3, 64, 0)));
  net = Pool(s, Norm(s, ConvLayer(s.SubScope("conv2"), net, 64, 64, 0.1)));
  net = tw::Reshape(s, net, tw::Const(s, std::vector<int32_t>{batch, 6 * 6 * 64}));
  tw::Output decay;
  net = Local(s.SubScope("local3"), net, 6 * 6 * 64, 384, &decay);
  net = Local(s.SubScope("local4"), net, 384, 192, &decay);
  const auto logits = tw::layers::Dense(s, net, 10);
  const auto loss = tw::Add(s, tw::ReduceMean(s, tw::SparseSoftmaxCrossEntropy(s, logits, labels)), decay);
  const auto train_op = tw::GradientDescent({.learning_rate = 0.01})->Minimize(s, loss);
  const auto init_op = tw::InitializeVariables(s);
  ASSIGN_OR_RETURN(auto session, tw::Session::Create(graph, {.threads = absl::GetFlag(FLAGS_threads)}));
  RETURN_IF_ERROR(session->Run({init_op}).status());
  ASSIGN_OR_RETURN(const auto step, session->Prepare({train_op, loss}, {images, labels}));
  tw::Tensor x(tw::kFloat, {batch, 24, 24, 3});
  tw::Tensor y(tw::kInt32, {batch});
  for (int64_t i = 0; i < x.num_elements(); ++i) x.flat<float>()[i] = static_cast<float>(i * 7919 % 1000) / 500 - 1;
  for (int i = 0; i < batch; ++i) y.flat<int32_t>()[i] = i % 10;
  for (int i = 0; i < 3; ++i) RETURN_IF_ERROR(step.Run({x, y}).status());
  const int64_t start = tw::NowNanos();
  const auto budget = static_cast<int64_t>(absl::GetFlag(FLAGS_seconds) * 1e9);
  int64_t steps = 0;
  for (; tw::NowNanos() - start < budget; ++steps) RETURN_IF_ERROR(step.Run({x, y}).status());
  return static_cast<double>(steps * batch) * 1e9 / static_cast<double>(tw::NowNanos() - start);
}

}  // namespace

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const absl::StatusOr<double> rate = ImagesPerSecond(absl::GetFlag(FLAGS_batch));
  if (!rate.ok()) {
    std::fprintf(stderr, "%s\n", rate.status().ToString().c_str());
    return 1;
  }
  std::printf("images_per_second %.1f\n", *rate);
  return 0;
}
