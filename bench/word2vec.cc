// SPDX-License-Identifier: Apache-2.0
// The skip-gram model of TensorFlow's word2vec tutorial (50,000 words of 128
// numbers, batches of 128 pairs, NCE with 64 sampled words, gradient descent),
// data fed each step: steps per second. bench/word2vec.py runs it side by side
// with TensorFlow.
//
//   word2vec --threads=0 --seconds=5      -> "steps_per_second 1234.5"
#include <cmath>
#include <cstdio>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "thalweg/api.h"
#include "thalweg/base/clock.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

ABSL_FLAG(int, threads, 0, "threads; 0: one per core");
ABSL_FLAG(double, seconds, 5, "how long to measure");

namespace {

constexpr int kBatch = 128, kDepth = 128, kWords = 50000, kSampled = 64;

absl::StatusOr<double> StepsPerSecond() {
  tw::Graph graph;
  const tw::Scope s = graph.root();
  const auto words = tw::Placeholder(s, tw::kInt32, {kBatch});
  const auto near = tw::Placeholder(s, tw::kInt64, {kBatch, 1});
  const auto embedded = tw::layers::Embedding(s, words, kWords, kDepth,
                                              {.initializer = tw::initializers::Uniform({.minval = -1, .maxval = 1})});
  const auto weights = tw::MakeVariable(
      s, "nce_weights", {kWords, kDepth},
      {.initializer = tw::initializers::TruncatedNormal({.stddev = 1 / std::sqrt(static_cast<double>(kDepth))})});
  const auto biases = tw::MakeVariable(s, "nce_biases", {kWords}, {.initializer = tw::initializers::Zeros()});
  const auto loss = tw::ReduceMean(
      s, tw::NceLoss(s, weights, biases, near, embedded, {.num_sampled = kSampled, .num_classes = kWords}));
  const auto train_op = tw::GradientDescent({.learning_rate = 1.0})->Minimize(s, loss);
  const auto init_op = tw::InitializeVariables(s);
  ASSIGN_OR_RETURN(auto session, tw::Session::Create(graph, {.threads = absl::GetFlag(FLAGS_threads)}));
  RETURN_IF_ERROR(session->Run({init_op}).status());
  ASSIGN_OR_RETURN(const auto step, session->Prepare({train_op, loss}, {words, near}));
  tw::Tensor x(tw::kInt32, {kBatch}), y(tw::kInt64, {kBatch, 1});
  const auto run = [&](int64_t i) {
    for (int64_t j = 0; j < kBatch; ++j) {
      x.flat<int32_t>()[j] = static_cast<int32_t>((i * kBatch + j) * 7919 % kWords);
      y.flat<int64_t>()[j] = (i * kBatch + j) * 104729 % kWords;
    }
    return step.Run({x, y}).status();
  };
  for (int i = 0; i < 30; ++i) RETURN_IF_ERROR(run(i));
  const int64_t start = tw::NowNanos();
  const auto budget = static_cast<int64_t>(absl::GetFlag(FLAGS_seconds) * 1e9);
  int64_t steps = 0;
  for (; tw::NowNanos() - start < budget; ++steps) RETURN_IF_ERROR(run(steps));
  return static_cast<double>(steps) * 1e9 / static_cast<double>(tw::NowNanos() - start);
}

}  // namespace

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const absl::StatusOr<double> rate = StepsPerSecond();
  if (!rate.ok()) {
    std::fprintf(stderr, "%s\n", rate.status().ToString().c_str());
    return 1;
  }
  std::printf("steps_per_second %.1f\n", *rate);
  return 0;
}
