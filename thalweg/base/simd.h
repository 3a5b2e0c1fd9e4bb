// SPDX-License-Identifier: Apache-2.0
// THALWEG_SIMD before a function (or function template) that holds a hot plain
// loop: it is compiled at -O3 for AVX2+FMA machines (x86-64-v3) and for the
// baseline, and the dynamic linker picks one when the program starts.
//
//   template <typename F>
//   THALWEG_SIMD void Map(const float* in, float* out, int64_t n, F f) {
//     for (int64_t i = 0; i < n; ++i) out[i] = f(in[i]);
//   }
//
// Lambdas and inline functions called in the loop are inlined and vectorized
// with it. The function itself is never inlined into its callers, and a
// THALWEG_SIMD function called in the loop of another is a real call: put the
// attribute on the outermost function that has the loop, and give it enough to
// do. The v3 version contracts a * b + c into one rounding.
//
// Empty for sanitizers: the resolvers run while the program is being
// relocated, before a sanitizer's runtime is ready for instrumented code. Empty
// for clang (version 14 cannot clone templates) and for other architectures.
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define THALWEG_SIMD [[gnu::target_clones("arch=x86-64-v3", "default"), gnu::optimize("O3")]]
#else
#define THALWEG_SIMD
#endif
