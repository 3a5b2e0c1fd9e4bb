// SPDX-License-Identifier: Apache-2.0
// The language model of TensorFlow's PTB tutorial in its small configuration (two
// LSTM layers of 200, 20 steps, batches of 20, 10,000 words, gradients clipped by
// their global norm), data fed each step: words per second. bench/ptb.py runs it
// side by side with TensorFlow.
//
//   ptb --threads=0 --seconds=5      -> "words_per_second 12345.6"
#include <cstdio>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "thalweg/api.h"
#include "thalweg/base/clock.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

ABSL_FLAG(int, threads, 0, "threads; 0: one per core");
ABSL_FLAG(double, seconds, 5, "how long to measure");
ABSL_FLAG(bool, cells, false, "a copy of the cells for every time step instead of one operation for a layer");
ABSL_FLAG(bool, loop, false, "a loop over the time steps instead");

namespace {

constexpr int kBatch = 20, kSteps = 20, kHidden = 200, kWords = 10000;

absl::StatusOr<double> WordsPerSecond() {
  tw::Graph graph;
  const tw::Scope s = graph.root();
  const auto x = tw::Placeholder(s, tw::kInt32, {kBatch, kSteps});
  const auto y = tw::Placeholder(s, tw::kInt32, {kBatch, kSteps});
  const auto uniform = tw::initializers::Uniform({.minval = -0.1, .maxval = 0.1});
  const tw::layers::LstmOptions lstm{.forget_bias = 0, .initializer = uniform};
  auto net = tw::layers::Embedding(s, x, kWords, kHidden, {.initializer = uniform});
  if (const bool loop = absl::GetFlag(FLAGS_loop); loop || absl::GetFlag(FLAGS_cells)) {
    const auto cell = [&] { return tw::layers::LstmCell(kHidden, lstm); };
    net = tw::layers::Rnn(s, tw::layers::MultiCell({cell(), cell()}), net, {.unroll = !loop}).outputs;
  } else {
    for (int layer = 0; layer < 2; ++layer) net = tw::layers::LstmLayer(s, net, kHidden, lstm).outputs;
  }
  const auto logits = tw::layers::Dense(s, tw::Reshape(s, net, {-1, kHidden}), kWords);
  const auto losses = tw::SparseSoftmaxCrossEntropy(s, logits, tw::Reshape(s, y, {-1}));
  const auto loss = tw::RealDiv(s, tw::ReduceSum(s, losses), tw::Const(s, static_cast<float>(kBatch)));
  const auto optimizer = tw::GradientDescent({.learning_rate = 0.1});
  const auto clipped = tw::ClipByGlobalNorm(s, optimizer->ComputeGradients(s, loss), 5);
  const auto train_op = optimizer->ApplyGradients(s, clipped.gradients);
  const auto init_op = tw::InitializeVariables(s);
  ASSIGN_OR_RETURN(auto session, tw::Session::Create(graph, {.threads = absl::GetFlag(FLAGS_threads)}));
  RETURN_IF_ERROR(session->Run({init_op}).status());
  ASSIGN_OR_RETURN(const auto step, session->Prepare({train_op, loss}, {x, y}));
  tw::Tensor words(tw::kInt32, {kBatch, kSteps}), next(tw::kInt32, {kBatch, kSteps});
  for (int i = 0; i < kBatch * kSteps; ++i) {
    words.flat<int32_t>()[i] = i * 7919 % kWords;
    next.flat<int32_t>()[i] = (i + 1) * 7919 % kWords;
  }
  for (int i = 0; i < 5; ++i) RETURN_IF_ERROR(step.Run({words, next}).status());
  const int64_t start = tw::NowNanos();
  const auto budget = static_cast<int64_t>(absl::GetFlag(FLAGS_seconds) * 1e9);
  int64_t steps = 0;
  for (; tw::NowNanos() - start < budget; ++steps) RETURN_IF_ERROR(step.Run({words, next}).status());
  return static_cast<double>(steps * kBatch * kSteps) * 1e9 / static_cast<double>(tw::NowNanos() - start);
}

}  // namespace

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const absl::StatusOr<double> rate = WordsPerSecond();
  if (!rate.ok()) {
    std::fprintf(stderr, "%s\n", rate.status().ToString().c_str());
    return 1;
  }
  std::printf("words_per_second %.1f\n", *rate);
  return 0;
}
