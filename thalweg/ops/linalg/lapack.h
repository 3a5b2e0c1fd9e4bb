// Dense linear algebra by LAPACK and BLAS, which Debian packages as OpenBLAS.
//
// S is float, double, std::complex<float> or std::complex<double>. Matrices are
// dense and stored by columns, unless a name says Rows. Tensors store matrices by
// rows, so what a tensor holds is the transpose to LAPACK; the functions that can
// work on that directly do, and say so.
//
// All run on the calling thread and are thread-safe. Sizes are int, as in LAPACK.
// `work` is memory for one function: empty before the first call, and kept for
// further calls with the same sizes, which then need not ask how much they want.
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

// a, stored by rows, becomes L in its lower triangle, with a = L L^H; the upper
// triangle is neither read nor written. False if a is not positive definite.
template <typename S>
bool CholeskyRows(int n, S* a);

// a becomes L (whose diagonal is 1) and U with P a = L U. Row i was swapped with
// row pivots[i], counted from 1, one after the other. False if a pivot is zero.
template <typename S>
bool Lu(int n, S* a, int* pivots);
// b, n x k and stored by rows, becomes x with A x = b, where `lu` is of A.
template <typename S>
void SolveLuRows(int n, int k, const S* lu, const int* pivots, S* b);

enum class Triangle { kLower, kUpper };
enum class Form { kPlain, kTransposed, kAdjoint };
// b, m x n, becomes x with x op(t) = b: `form` is op, and only that triangle of
// t, whose columns are `stride` apart, is read. `unit`: its diagonal is 1.
template <typename S>
void SolveTriangleRight(Triangle triangle, Form form, bool unit, int m, int n, const S* t, int stride, S* b);
// b, n x k, becomes x with op(t) x = b; t and b are stored by rows.
template <typename S>
void SolveTriangleRows(Triangle triangle, bool adjoint, int n, int k, const S* t, S* b);

// c = op(a) op(b), m x n, where op(a) has k columns.
template <typename S>
void Multiply(Form form_a, Form form_b, int m, int n, int k, const S* a, const S* b, S* c);

// The upper triangle of c, n x n, becomes a a^H (a is n x k) or, with kAdjoint,
// a^H a (a is k x n).
template <typename S>
void Gram(Form form, int n, int k, const S* a, S* c);

// a (m x n) becomes Householder's vectors below R.
template <typename S>
void Qr(int m, int n, S* a, std::vector<S>& tau, std::vector<S>& work);
// The first `columns` columns of Q from what Qr left in the first of q (m x columns).
template <typename S>
void QOf(int m, int columns, S* q, std::vector<S>& tau, std::vector<S>& work);

// a (m x n, overwritten) = u diag(s) v, s decreasing, u with kAll m x m and v
// n x n, with kThin m x k and k x n, where k = min(m, n). False if it does not
// converge. REQUIRES: all elements are finite, here and below.
enum class SvdVectors { kNone = 'N', kThin = 'S', kAll = 'A' };
template <typename S>
bool Svd(SvdVectors vectors, int m, int n, S* a, Real<S>* s, S* u, S* v, std::vector<S>& work);

// Eigenvalues, increasing, of a Hermitian matrix, from its upper triangle; a
// becomes the eigenvectors if asked for.
template <typename S>
bool HermitianEigen(bool vectors, int n, S* a, Real<S>* values, std::vector<S>& work);

// Eigenvalues, and right eigenvectors of length 1 if `vectors` is not nullptr. a
// is overwritten.
template <typename S>
bool Eigen(int n, S* a, std::complex<Real<S>>* values, std::complex<Real<S>>* vectors, std::vector<S>& work);

// a = u t u^H; t, which is upper triangular, takes the place of a.
bool Schur(int n, std::complex<double>* a, std::complex<double>* u);
// The same in real numbers; t has blocks of two on its diagonal for complex pairs
// of eigenvalues.
bool RealSchur(int n, double* a, double* u);

// b (max(m, n) x k, of which the first m rows count) becomes in its first n rows
// the x of least |x| among those of least |a x - b|; a (m x n) is overwritten.
template <typename S>
void LeastSquares(int m, int n, int k, S* a, S* b, std::vector<S>& work);

}  // namespace thalweg::lapack
