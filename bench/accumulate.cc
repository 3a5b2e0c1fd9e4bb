// SPDX-License-Identifier: Apache-2.0
// Measures whether a variable should be updated in the same pass that adds up the gradients of several workers,
// instead of adding them into a tensor that the update reads: Adam on one thread, 650,000 elements (the MLP of
// the tutorials) and ten million.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "thalweg/base/simd.h"

namespace {

constexpr int64_t kBlock = 2048;  // stays in the first-level cache

using Floats = std::vector<float>;

THALWEG_SIMD void Add(const float* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}
THALWEG_SIMD void Scale(float by, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] *= by;
}
THALWEG_SIMD void Adam(const float* g, float* var, float* m, float* v, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    m[i] += (g[i] - m[i]) * 0.1f;
    v[i] += (g[i] * g[i] - v[i]) * 0.001f;
    var[i] -= 0.001f * m[i] / (std::sqrt(v[i]) + 1e-8f);
  }
}

// The mean of the gradients' elements [begin, begin + n).
void Mean(const std::vector<Floats>& gradients, int64_t begin, int64_t n, float* mean) {
  std::copy_n(gradients[0].data() + begin, n, mean);
  for (size_t w = 1; w < gradients.size(); ++w) Add(gradients[w].data() + begin, mean, n);
  Scale(1.0f / static_cast<float>(gradients.size()), mean, n);
}

void BM_AddAndApply(benchmark::State& state) {
  const bool one_pass = state.range(0) != 0;
  const int64_t workers = state.range(1), size = state.range(2);
  std::vector<Floats> gradients(workers, Floats(size, 0.5f));
  Floats var(size, 1), m(size), v(size, 1), taken(size);
  float block[kBlock];
  for (auto _ : state) {
    for (int64_t i = 0; i < size; i += kBlock) {
      const int64_t n = std::min(kBlock, size - i);
      Mean(gradients, i, n, one_pass ? block : taken.data() + i);
      if (one_pass) Adam(block, var.data() + i, m.data() + i, v.data() + i, n);
    }
    if (!one_pass) Adam(taken.data(), var.data(), m.data(), v.data(), size);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_AddAndApply)
    ->ArgNames({"one_pass", "workers", "size"})
    ->ArgsProduct({{0, 1}, {2, 4}, {650'000, 10'000'000}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
