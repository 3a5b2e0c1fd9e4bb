// SPDX-License-Identifier: Apache-2.0
// Dense linear algebra by LAPACK and BLAS, which Debian packages as OpenBLAS.
//
// S is float, double, std::complex<float> or std::complex<double>. Matrices are dense and
// column-major. Tensors are row-major, so LAPACK sees the transpose of a tensor's matrix;
// functions with Rows in their name work on it directly.
//
// All functions run on the calling thread and are thread-safe. Sizes are int, as in LAPACK.
// `work` is the workspace of one function: empty before the first call, and reused by further
// calls with the same sizes, which then skip the workspace query.
#pragma once

#include <complex>
#include <vector>

namespace thalweg::lapack {

template <typename S>
struct RealOf {
  using type = S;
};
template <typename R>
struct RealOf<std::complex<R>> {
  using type = R;
};
// The type of absolute values, singular values and the like.
template <typename S>
using Real = typename RealOf<S>::type;

inline float Conj(float x) { return x; }
inline double Conj(double x) { return x; }
template <typename R>
std::complex<R> Conj(std::complex<R> x) {
  return std::conj(x);
}

// Replaces the lower triangle of a (row-major) by L with a = L L^H. The upper triangle is
// neither read nor written. Returns false if a is not positive definite.
template <typename S>
bool CholeskyRows(int n, S* a);

// Replaces a by L (with a unit diagonal) and U with P a = L U. Row i was swapped with row
// pivots[i], counted from 1, in this order. Returns false if a pivot is zero.
template <typename S>
bool Lu(int n, S* a, int* pivots);
// Replaces b (n x k, row-major) by x with A x = b, where `lu` is the result of Lu() for A.
template <typename S>
void SolveLuRows(int n, int k, const S* lu, const int* pivots, S* b);
// Sets `inverse` (row-major) to the inverse of A.
template <typename S>
void InvertLuRows(int n, const S* lu, const int* pivots, S* inverse);

enum class Triangle { kLower, kUpper };
enum class Form { kPlain, kTransposed, kAdjoint };
// Replaces b (m x n) by x with x op(t) = b, where `form` is op. Reads only the given triangle of
// t, whose columns are `stride` apart. With `unit`, its diagonal counts as 1.
template <typename S>
void SolveTriangleRight(Triangle triangle, Form form, bool unit, int m, int n, const S* t, int stride, S* b);
// Replaces b (n x k) by x with op(t) x = b. t and b are row-major.
template <typename S>
void SolveTriangleRows(Triangle triangle, bool adjoint, int n, int k, const S* t, S* b);

// c = op(a) op(b), m x n, where op(a) has k columns.
template <typename S>
void Multiply(Form form_a, Form form_b, int m, int n, int k, const S* a, const S* b, S* c);

// Sets the upper triangle of c (n x n) to a a^H (a is n x k) or, with kAdjoint, to a^H a (a is
// k x n).
template <typename S>
void Gram(Form form, int n, int k, const S* a, S* c);

// Replaces a (m x n) by R with the Householder vectors below it.
template <typename S>
void Qr(int m, int n, S* a, std::vector<S>& tau, std::vector<S>& work);
// Computes the first `columns` columns of Q in place. q (m x columns) holds the columns that
// Qr() left.
template <typename S>
void QOf(int m, int columns, S* q, std::vector<S>& tau, std::vector<S>& work);

// a (m x n, overwritten) = u diag(s) v with decreasing s. With kAll, u is m x m and v is n x n;
// with kThin, m x k and k x n, where k = min(m, n). Returns false if it does not converge.
// REQUIRES: all elements are finite, here and below.
enum class SvdVectors { kNone = 'N', kThin = 'S', kAll = 'A' };
template <typename S>
bool Svd(SvdVectors vectors, int m, int n, S* a, Real<S>* s, S* u, S* v, std::vector<S>& work);

// Computes the eigenvalues of a Hermitian matrix, in increasing order, from its upper triangle.
// With `vectors`, replaces a by the eigenvectors.
template <typename S>
bool HermitianEigen(bool vectors, int n, S* a, Real<S>* values, std::vector<S>& work);

// Computes the eigenvalues and, if `vectors` is not nullptr, the right eigenvectors of length 1.
// Overwrites a.
template <typename S>
bool Eigen(int n, S* a, std::complex<Real<S>>* values, std::complex<Real<S>>* vectors, std::vector<S>& work);

// Schur decomposition a = u t u^H. Replaces a by t, which is upper triangular.
bool Schur(int n, std::complex<double>* a, std::complex<double>* u);
// The same in real numbers. t has 2 x 2 blocks on its diagonal for complex pairs of eigenvalues.
bool RealSchur(int n, double* a, double* u);

// Least squares: replaces the first n rows of b by the x of minimum |x| among those that
// minimize |a x - b|. b is max(m, n) x k, and its first m rows are the input. Overwrites a
// (m x n).
template <typename S>
void LeastSquares(int m, int n, int k, S* a, S* b, std::vector<S>& work);

}  // namespace thalweg::lapack
