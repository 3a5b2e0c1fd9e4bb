// Dense matrices in double precision, real or complex, and their
// factorizations. Plain loops: fine for matrices of some hundred rows.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace thalweg {

// A value; S is double or std::complex<double>.
template <typename S>
class Matrix {
 public:
  Matrix(int64_t rows, int64_t columns, S value = S(0))
      : rows_(rows), columns_(columns), elements_(rows * columns, value) {}
  static Matrix Identity(int64_t rows, int64_t columns) {
    Matrix m(rows, columns);
    for (int64_t i = 0; i < rows && i < columns; ++i) m(i, i) = S(1);
    return m;
  }

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t size() const { return rows_ * columns_; }
  S* data() { return elements_.data(); }
  const S* data() const { return elements_.data(); }
  S& operator()(int64_t i, int64_t j) { return elements_[i * columns_ + j]; }
  const S& operator()(int64_t i, int64_t j) const { return elements_[i * columns_ + j]; }

  Matrix Adjoint() const;
  bool AllFinite() const;

 private:
  int64_t rows_;
  int64_t columns_;
  std::vector<S> elements_;
};

// REQUIRES, here and below: sizes fit.
template <typename S>
Matrix<S> Multiply(const Matrix<S>& a, const Matrix<S>& b);

// Row i of L U is row rows[i] of the input; L, whose diagonal is 1, and U share
// a matrix. singular: a pivot is zero.
template <typename S>
struct LuFactors {
  Matrix<S> lu;
  std::vector<int64_t> rows;
  int sign = 1;
  bool singular = false;
};
template <typename S>
LuFactors<S> FactorLu(Matrix<S> a);
template <typename S>
Matrix<S> SolveLu(const LuFactors<S>& factors, const Matrix<S>& b);

// a becomes L with L L^H = a, from its lower triangle. False if a is not
// positive definite.
template <typename S>
bool FactorCholesky(Matrix<S>* a);

// b becomes a^-1 b; only that triangle of a counts.
template <typename S>
void SolveTriangular(const Matrix<S>& a, bool lower, Matrix<S>* b);

// a = q r, by Householder's reflections; q has `width` columns.
template <typename S>
struct QrFactors {
  Matrix<S> q;
  Matrix<S> r;
};
template <typename S>
QrFactors<S> FactorQr(Matrix<S> a, int64_t width);

// a = u diag(s) v^H, s decreasing. u and v are square if `full`, else have as
// many columns as s. REQUIRES: all elements are finite.
template <typename S>
struct SvdFactors {
  Matrix<S> u;
  std::vector<double> s;
  Matrix<S> v;
};
template <typename S>
SvdFactors<S> FactorSvd(const Matrix<S>& a, bool full);

// Eigenvalues, increasing, and vectors of a Hermitian matrix, from its lower
// triangle. REQUIRES: all elements are finite.
template <typename S>
struct HermitianFactors {
  std::vector<double> values;
  Matrix<S> vectors;
};
template <typename S>
HermitianFactors<S> FactorHermitian(Matrix<S> a);

// a = u t u^H, u unitary, t upper triangular with the eigenvalues on its
// diagonal. converged: false in the rare case that it did not work.
struct SchurFactors {
  Matrix<std::complex<double>> u;
  Matrix<std::complex<double>> t;
  bool converged = true;
};
SchurFactors FactorSchur(Matrix<std::complex<double>> a);

}  // namespace thalweg
