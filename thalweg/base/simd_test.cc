// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/simd.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace thalweg {
namespace {

template <typename T, typename F>
THALWEG_SIMD void Map(const T* in, T* out, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) out[i] = f(in[i]);
}

THALWEG_SIMD int64_t Sum(const int32_t* in, int64_t n) {
  int64_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += in[i];
  return sum;
}

TEST(SimdTest, ClonesComputeTheSame) {
  for (int64_t n : {0, 1, 7, 8, 100, 1003}) {
    std::vector<int32_t> in(n), out(n);
    for (int64_t i = 0; i < n; ++i) in[i] = static_cast<int32_t>(i);
    const int32_t offset = 3;
    Map(in.data(), out.data(), n, [&](int32_t x) { return 2 * x + offset; });
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(out[i], 2 * i + 3);
    EXPECT_EQ(Sum(in.data(), n), n * (n - 1) / 2);
  }
}

}  // namespace
}  // namespace thalweg
