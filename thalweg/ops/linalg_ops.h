// SPDX-License-Identifier: Apache-2.0
// Linear algebra and Fourier transforms. Matrices are the last two dimensions of a tensor;
// the others are a batch.
#pragma once

#include <cstdint>

#include "thalweg/graph/scope.h"
#include "thalweg/ops/arguments.h"

namespace thalweg {

// ---- solving and decomposing ----

// Whether the conjugate transpose of the matrix is used instead of the matrix.
struct AdjointOptions {
  bool adjoint = false;  // use the conjugate transpose of the matrix
};
// The lower triangular L with L L^H = input, for Hermitian positive definite matrices.
Output Cholesky(const Scope& s, Output input);
// The inverse of square matrices.
Output MatrixInverse(const Scope& s, Output input, const AdjointOptions& options = {});
// The determinants, [...].
Output MatrixDeterminant(const Scope& s, Output input);
// The determinants of matrices, as sign * exp(log_abs_determinant).
struct LogMatrixDeterminantResult {
  Output sign;                 // [...]: of absolute value 1
  Output log_abs_determinant;  // [...]
};
// The determinants as sign and logarithm, which do not overflow.
LogMatrixDeterminantResult LogMatrixDeterminant(const Scope& s, Output input);
// x with matrix x = rhs, for square matrices [...,n,n] and rhs [...,n,k].
Output MatrixSolve(const Scope& s, Output matrix, Output rhs, const AdjointOptions& options = {});
// Which triangle of the matrix MatrixTriangularSolve uses.
struct TriangularSolveOptions {
  bool lower = true;     // the lower triangle counts; else the upper
  bool adjoint = false;  // use the conjugate transpose of the matrix
};
// x with matrix x = rhs, for triangular matrices.
Output MatrixTriangularSolve(const Scope& s, Output matrix, Output rhs, const TriangularSolveOptions& options = {});
// The regularization and the method of MatrixSolveLs.
struct MatrixSolveLsOptions {
  double l2_regularizer = 0;  // weight of |x|^2
  bool fast = true;           // Cholesky; false: a full decomposition, which takes matrices of deficient rank
};
// The x [...,n,k] of least |matrix x - rhs|^2 + l2_regularizer |x|^2, for matrices [...,m,n] and rhs [...,m,k].
Output MatrixSolveLs(const Scope& s, Output matrix, Output rhs, const MatrixSolveLsOptions& options = {});
// The factors of an LU decomposition.
struct LuResult {
  Output lu;  // L below the diagonal (with ones on it), U on and above it
  Output p;   // int32 [..., n]: the rows in the order of the pivots
};
// The LU decomposition with row pivots.
LuResult Lu(const Scope& s, Output input);
// The factors of a QR decomposition.
struct QrResult {
  Output q;  // orthonormal columns
  Output r;  // upper triangular
};
// The shapes of the factors of Qr.
struct QrOptions {
  bool full_matrices = false;  // q is [...,m,m] and r [...,m,n]; false: min(m, n) columns of q and rows of r
};
// The QR decomposition of matrices [...,m,n]: input = q r.
QrResult Qr(const Scope& s, Output input, const QrOptions& options = {});
// The factors of a singular value decomposition.
struct SvdResult {
  Output s;  // singular values, largest first
  Output u;  // left singular vectors, as columns; empty unless computed
  Output v;  // right singular vectors, as columns; empty unless computed
};
// Which factors Svd computes, and their shapes.
struct SvdOptions {
  bool compute_uv = true;      // the vectors, too
  bool full_matrices = false;  // square u and v
};
// The singular value decomposition: input = u diag(s) v^H.
SvdResult Svd(const Scope& s, Output input, const SvdOptions& options = {});
// What SelfAdjointEig and Eig compute.
struct EigOptions {
  bool compute_v = true;  // the eigenvectors, too
};
// Eigenvalues and eigenvectors.
struct EigResult {
  Output e;  // eigenvalues
  Output v;  // eigenvectors, as columns; empty unless computed
};
// Eigenvalues, in rising order, and eigenvectors of Hermitian matrices.
EigResult SelfAdjointEig(const Scope& s, Output input, const EigOptions& options = {});
// Eigenvalues and eigenvectors of square matrices; gives complex numbers.
EigResult Eig(const Scope& s, Output input, const EigOptions& options = {});
// The exponential of square matrices.
Output MatrixExponential(const Scope& s, Output input);
// The principal logarithm of square complex matrices.
Output MatrixLogarithm(const Scope& s, Output input);
// The principal square root of square matrices.
Output MatrixSquareRoot(const Scope& s, Output input);
// The method of TridiagonalSolve.
struct TridiagonalSolveOptions {
  bool partial_pivoting = true;  // swap rows for accuracy; false is faster, and enough for diagonally dominant M
};
// x with M x = rhs for tridiagonal M, given as diagonals [...,3,n]: above, on and below
// the main diagonal.
Output TridiagonalSolve(const Scope& s, Output diagonals, Output rhs, const TridiagonalSolveOptions& options = {});
// The product of tridiagonal matrices, given by their diagonals [...,1,n], and rhs [...,n,k].
Output TridiagonalMatMul(const Scope& s, Output superdiag, Output maindiag, Output subdiag, Output rhs);

// ---- Fourier transforms, along the last one, two or three dimensions ----

// The discrete Fourier transform of complex numbers:
Output FFT(const Scope& s, Output input);
Output FFT2D(const Scope& s, Output input);
Output FFT3D(const Scope& s, Output input);

// The inverse of FFT, FFT2D and FFT3D, divided by the number of elements:
Output IFFT(const Scope& s, Output input);
Output IFFT2D(const Scope& s, Output input);
Output IFFT3D(const Scope& s, Output input);

// The Fourier transform of real numbers; gives the fft_length / 2 + 1 terms that are
// different along the last dimension. The input is cut off or filled up with zeros to
// fft_length, a size per dimension: RFFT(s, x, {256}):
Output RFFT(const Scope& s, Output input, const IntsArg& fft_length);
Output RFFT2D(const Scope& s, Output input, const IntsArg& fft_length);
Output RFFT3D(const Scope& s, Output input, const IntsArg& fft_length);

// The inverse of RFFT, RFFT2D and RFFT3D: real numbers:
Output IRFFT(const Scope& s, Output input, const IntsArg& fft_length);
Output IRFFT2D(const Scope& s, Output input, const IntsArg& fft_length);
Output IRFFT3D(const Scope& s, Output input, const IntsArg& fft_length);

}  // namespace thalweg
