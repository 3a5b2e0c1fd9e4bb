// SPDX-License-Identifier: Apache-2.0
// The price of a step itself: a graph of tiny nodes, and a fetched constant.
#include <benchmark/benchmark.h>

#include "thalweg/api.h"

namespace {

namespace tw = thalweg;

// A chain and a bush of scalar nodes: 150 that cannot be folded.
void BM_TinyNodes(benchmark::State& state) {
  tw::Graph graph;
  const tw::Scope s = graph.root();
  const tw::Output x = tw::Placeholder(s, tw::kFloat, {});
  tw::Output y = x;
  for (int i = 0; i < 75; ++i) {
    y = tw::Add(s, y, x);
    y = tw::Mul(s, y, x);
  }
  auto session = *tw::Session::Create(graph);
  const auto step = *session->Prepare({y}, {x});
  const tw::Tensor one = tw::Tensor::Scalar(1.f);
  for (auto _ : state) benchmark::DoNotOptimize(step.Run({one}));
}
BENCHMARK(BM_TinyNodes)->Unit(benchmark::kMicrosecond);

void BM_FetchConstant(benchmark::State& state) {
  tw::Graph graph;
  const tw::Scope s = graph.root();
  const tw::Output c = tw::Const(s, 1.f);
  auto session = *tw::Session::Create(graph);
  for (auto _ : state) benchmark::DoNotOptimize(session->Run({c}));
}
BENCHMARK(BM_FetchConstant)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
