// SPDX-License-Identifier: Apache-2.0
// The tutorial's MLP (784-500-500-10, Adam), data fed each step: steps per
// second, and the limit that GEMM and Adam alone set on one core. bench/mlp.py
// runs it side by side with TensorFlow.
//
//   mlp --batch=32 --threads=0 --seconds=2      -> "steps_per_second 1234.5"
//   mlp --batch=32 --limit --seconds=2          -> the same work, as bare loops
#include <cmath>
#include <cstdio>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "thalweg/api.h"
#include "thalweg/base/clock.h"
#include "thalweg/base/simd.h"
#include "thalweg/ops/support/gemm.h"
#include "thalweg/short_macros.h"

namespace tw = thalweg;

ABSL_FLAG(int, batch, 32, "images in a batch");
ABSL_FLAG(int, threads, 0, "threads; 0: one per core");
ABSL_FLAG(double, seconds, 2, "how long to measure");
ABSL_FLAG(bool, limit, false, "measure the bare matrix products and Adam updates of a step, on one core");

namespace {

template <typename Step>
double StepsPerSecond(Step&& step) {
  for (int i = 0; i < 30; ++i) step();
  const int64_t start = tw::NowNanos();
  const auto budget = static_cast<int64_t>(absl::GetFlag(FLAGS_seconds) * 1e9);
  int64_t steps = 0;
  while (tw::NowNanos() - start < budget) {
    for (int i = 0; i < 10; ++i) step();
    steps += 10;
  }
  return static_cast<double>(steps) * 1e9 / static_cast<double>(tw::NowNanos() - start);
}

absl::StatusOr<double> Session(int batch) {
  tw::Graph graph;
  const tw::Scope s = graph.root();
  const auto images = tw::Placeholder(s, tw::kFloat, {-1, 784});
  const auto labels = tw::Placeholder(s, tw::kInt32, {-1});
  auto net = tw::layers::Dense(s, images, 500, {.activation = tw::Relu});
  net = tw::layers::Dense(s, net, 500, {.activation = tw::Relu});
  const auto logits = tw::layers::Dense(s, net, 10);
  const auto loss = tw::ReduceMean(s, tw::SparseSoftmaxCrossEntropy(s, logits, labels));
  const auto train_op = tw::Adam({.learning_rate = 1e-4f})->Minimize(s, loss);
  const auto init_op = tw::InitializeVariables(s);
  ASSIGN_OR_RETURN(auto session, tw::Session::Create(graph, {.threads = absl::GetFlag(FLAGS_threads)}));
  RETURN_IF_ERROR(session->Run({init_op}).status());
  ASSIGN_OR_RETURN(const auto step, session->Prepare({train_op, loss}, {images, labels}));
  tw::Tensor x(tw::kFloat, {batch, 784});
  tw::Tensor y(tw::kInt32, {batch});
  for (int64_t i = 0; i < x.num_elements(); ++i) x.flat<float>()[i] = static_cast<float>(i * 7919 % 1000) / 1000;
  for (int i = 0; i < batch; ++i) y.flat<int32_t>()[i] = i % 10;
  absl::Status status;
  const double rate = StepsPerSecond([&] { status.Update(step.Run({x, y}).status()); });
  RETURN_IF_ERROR(status);
  return rate;
}

THALWEG_SIMD void AdamLoop(float* var, float* m, float* v, const float* g, int64_t n, float alpha) {
  for (int64_t i = 0; i < n; ++i) {
    m[i] += (g[i] - m[i]) * 0.1f;
    v[i] += (g[i] * g[i] - v[i]) * 0.001f;
    var[i] -= m[i] * alpha / (std::sqrt(v[i]) + 1e-8f);
  }
}

// Forward, both gradients of each layer but the first one's input, and Adam.
double Limit(int batch) {
  const int64_t sizes[] = {784, 500, 500, 10};
  std::vector<std::vector<float>> activations, weights, m, v, gradients;
  for (const int64_t size : sizes) activations.emplace_back(size * batch, 0.01f);
  for (int i = 0; i < 3; ++i) {
    for (auto* list : {&weights, &m, &v, &gradients}) list->emplace_back(sizes[i] * sizes[i + 1], 0.01f);
  }
  return StepsPerSecond([&] {
    for (int i = 0; i < 3; ++i) {
      tw::SingleThreadedSgemm(false, false, batch, sizes[i + 1], sizes[i], activations[i].data(), sizes[i],
                              weights[i].data(), sizes[i + 1], 0, activations[i + 1].data(), sizes[i + 1]);
    }
    for (int i = 2; i >= 0; --i) {
      tw::SingleThreadedSgemm(true, false, sizes[i], sizes[i + 1], batch, activations[i].data(), sizes[i],
                              activations[i + 1].data(), sizes[i + 1], 0, gradients[i].data(), sizes[i + 1]);
      if (i > 0) {
        tw::SingleThreadedSgemm(false, true, batch, sizes[i], sizes[i + 1], activations[i + 1].data(), sizes[i + 1],
                                weights[i].data(), sizes[i + 1], 0, activations[i].data(), sizes[i]);
      }
    }
    for (int i = 0; i < 3; ++i) {
      AdamLoop(weights[i].data(), m[i].data(), v[i].data(), gradients[i].data(), sizes[i] * sizes[i + 1], 1e-6f);
    }
    for (auto& a : activations) a[0] = 0.01f;
  });
}

}  // namespace

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const int batch = absl::GetFlag(FLAGS_batch);
  const absl::StatusOr<double> rate = absl::GetFlag(FLAGS_limit) ? Limit(batch) : Session(batch);
  if (!rate.ok()) {
    std::fprintf(stderr, "%s\n", rate.status().ToString().c_str());
    return 1;
  }
  std::printf("steps_per_second %.1f\n", *rate);
  return 0;
}
