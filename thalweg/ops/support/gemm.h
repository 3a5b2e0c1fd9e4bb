// SPDX-License-Identifier: Apache-2.0
// Products of row-major matrices.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "thalweg/kernel/kernel.h"

namespace thalweg {

// C = op(A) op(B), where op(A) is m x k, op(B) is k x n, and op optionally transposes. Matrices are
// dense, without gaps between rows.
struct Gemm {
  bool transpose_a = false;
  bool transpose_b = false;
  bool conjugate_a = false;  // complex only
  bool conjugate_b = false;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;

  // Runs on the calling thread. T: float, double, (u)int8..64, complex; integers wrap around.
  // RESOURCE_EXHAUSTED if there is no memory for packing.
  template <typename T>
  absl::Status Run(const T* a, const T* b, T* c) const;

  // Uses the threads of the kernel's device if that pays.
  template <typename T>
  absl::Status Run(KernelContext& context, const T* a, const T* b, T* c) const;

  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

// Keeps oneDNN from using other threads when the calling thread runs it.
void UseOneOpenMpThread();

// oneDNN's BLAS-like product on the calling thread only, with leading
// dimensions: C = op(A) op(B) + beta C.
void SingleThreadedSgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
                         int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc);

}  // namespace thalweg
