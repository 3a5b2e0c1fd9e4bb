// SPDX-License-Identifier: Apache-2.0
// Decompositions of real square matrices of at most kSmallMatrix rows, as they come in large
// batches. LAPACK spends most of its time for such a matrix in calls.
//
// Matrices are dense and column-major. R is float or double. All functions are thread-safe. Each
// returns false for a matrix that it leaves to LAPACK, because it does not converge, is badly
// scaled or nearly singular. The input is unchanged then.
#pragma once

#include <complex>

namespace thalweg::lapack {

constexpr int kSmallMatrix = 4;

// Replaces `a` by its eigenvectors, and sets `values` to the increasing eigenvalues. Reads only the
// upper triangle.
template <typename R>
bool SmallSymmetricEigen(int n, R* a, R* values);

// a = u diag(s) v with decreasing s. Does not set u and v unless `vectors` is true.
template <typename R>
bool SmallSvd(bool vectors, int n, const R* a, R* s, R* u, R* v);

// Schur decomposition a = u t u^T. Replaces a by t, whose diagonal has 2 x 2 blocks for complex
// pairs of eigenvalues.
bool SmallSchur(int n, double* a, double* u);

// Eigenvalues and, if `vectors` is not nullptr, right eigenvectors of length 1. Of a complex pair
// of eigenvalues, the one with the positive imaginary part comes first.
template <typename R>
bool SmallEigen(int n, const R* a, std::complex<R>* values, std::complex<R>* vectors);

}  // namespace thalweg::lapack
