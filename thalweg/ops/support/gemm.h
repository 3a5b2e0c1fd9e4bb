// Products of row-major matrices.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "thalweg/kernel/kernel.h"

namespace thalweg {

// C = op(A) op(B), where op(A) is m x k, op(B) is k x n, and op transposes or
// not. Matrices are dense: rows follow each other without gaps.
struct Gemm {
  bool transpose_a = false;
  bool transpose_b = false;
  bool conjugate_a = false;  // complex only
  bool conjugate_b = false;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;

  // On the calling thread. T: float, double, (u)int8..64, complex; integers
  // wrap around. RESOURCE_EXHAUSTED if there is no memory to pack into.
  template <typename T>
  absl::Status Run(const T* a, const T* b, T* c) const;

  // Shared between the threads of the kernel's device where it pays.
  template <typename T>
  absl::Status Run(KernelContext& context, const T* a, const T* b, T* c) const;

  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

// Makes oneDNN's code, when the calling thread runs it, stay on that thread.
void UseOneOpenMpThread();

// oneDNN's BLAS-like product on the calling thread only, with leading
// dimensions: C = op(A) op(B) + beta C.
void SingleThreadedSgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
                         int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc);

}  // namespace thalweg
