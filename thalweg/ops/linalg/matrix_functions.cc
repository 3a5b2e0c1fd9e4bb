// SPDX-License-Identifier: Apache-2.0
// Functions of matrices: MatrixSquareRoot and MatrixLogarithm by Schur's form,
// and MatrixExponential by a rational approximation. Computed in double precision.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "thalweg/base/simd.h"
#include "thalweg/ops/linalg/linalg.h"

namespace thalweg {
namespace {

using Complex = std::complex<double>;
using lapack::Form;

// n x n, by columns. S is double or Complex.
template <typename S>
struct SquareOf {
  explicit SquareOf(int n) : n(n), elements(int64_t{n} * n, S(0)) {}
  S& operator()(int64_t i, int64_t j) { return elements[j * n + i]; }
  const S& operator()(int64_t i, int64_t j) const { return elements[j * n + i]; }
  S* data() { return elements.data(); }
  const S* data() const { return elements.data(); }
  int64_t size() const { return static_cast<int64_t>(elements.size()); }

  int n;
  PoolVector<S> elements;
};
using Square = SquareOf<Complex>;
using RealSquare = SquareOf<double>;

template <typename S>
SquareOf<S> Product(const SquareOf<S>& a, const SquareOf<S>& b, Form form_b = Form::kPlain) {
  SquareOf<S> c(a.n);
  lapack::Multiply(Form::kPlain, form_b, a.n, a.n, a.n, a.data(), b.data(), c.data());
  return c;
}

// x += factor y.
void Add(double factor, const Square& y, Square& x) {
  for (int64_t i = 0; i < x.size(); ++i) x.elements[i] += factor * y.elements[i];
}
void AddToDiagonal(double value, Square& x) {
  for (int64_t i = 0; i < x.n; ++i) x(i, i) += value;
}

// The largest sum of absolute values in a column.
double Norm(const Square& x) {
  double most = 0;
  for (int64_t j = 0; j < x.n; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < x.n; ++i) sum += std::abs(x(i, j));
    most = std::max(most, sum);
  }
  return most;
}

// a - sum of x[k] y[k], without the checks for infinities that complex products
// have.
THALWEG_SIMD void SubtractProducts(const double* x, const double* y, int64_t n, double& a) {
  double sum = 0;
  for (int64_t k = 0; k < n; ++k) sum += x[k] * y[k];
  a -= sum;
}
THALWEG_SIMD void SubtractProducts(const Complex* x, const Complex* y, int64_t n, Complex& a) {
  const double *const p = reinterpret_cast<const double*>(x), *const q = reinterpret_cast<const double*>(y);
  double re = 0, im = 0;
  for (int64_t k = 0; k < 2 * n; k += 2) {
    re += p[k] * q[k] - p[k + 1] * q[k + 1];
    im += p[k] * q[k + 1] + p[k + 1] * q[k];
  }
  a -= Complex(re, im);
}

// The root of an upper triangle, column by column, from r r = t (Bjorck and
// Hammarling, 1983). `rows` is r by rows, so that the sums run along memory.
template <typename S>
SquareOf<S> RootOfTriangle(const SquareOf<S>& t) {
  const int64_t n = t.n;
  SquareOf<S> r(t.n), rows(t.n);
  for (int64_t j = 0; j < n; ++j) {
    r(j, j) = rows(j, j) = std::sqrt(t(j, j));
    for (int64_t i = j - 1; i >= 0; --i) {
      S sum = t(i, j);
      SubtractProducts(&rows(i + 1, i), &r(i + 1, j), j - i - 1, sum);
      r(i, j) = rows(j, i) = sum == S(0) ? S(0) : sum / (r(i, i) + r(j, j));
    }
  }
  return r;
}
Square SquareRoot(const Square& t) { return RootOfTriangle(t); }

// x d^-1, d an upper triangle.
void DivideByTriangle(const Square& d, Square& x) {
  lapack::SolveTriangleRight(lapack::Triangle::kUpper, Form::kPlain, false, d.n, d.n, d.data(), d.n, x.data());
}

// log t = 2^k log t^(1/2^k); near the identity it is the integral of x (1 + s
// x)^-1, x = t - 1, over s from 0 to 1, by Gauss and Legendre's rule.
Square Logarithm(const Square& input) {
  constexpr double kNodes[] = {0.1834346424956498, 0.5255324099163290, 0.7966664774136267, 0.9602898564975363};
  constexpr double kWeights[] = {0.3626837833783620, 0.3137066458778873, 0.2223810344533745, 0.1012285362903763};
  const auto far = [](Square x) { return AddToDiagonal(-1, x), Norm(x) > 0.1; };
  Square x = input;
  double scale = 1;
  for (int k = 0; k < 100 && far(x); ++k, scale *= 2) x = SquareRoot(x);
  AddToDiagonal(-1, x);
  Square log(x.n);
  for (int j = 0; j < 4; ++j) {
    for (const double sign : {-1.0, 1.0}) {
      const double node = (1 + sign * kNodes[j]) / 2;
      Square denominator(x.n), term = x;
      Add(node, x, denominator);
      AddToDiagonal(1, denominator);
      DivideByTriangle(denominator, term);
      Add(scale * kWeights[j] / 2, term, log);
    }
  }
  return log;
}

// Computes u f(t) u^H where a = u t u^H. Returns false if the Schur form does not converge.
bool BySchur(Square& a, Square (*function)(const Square&)) {
  Square u(a.n);
  if (!lapack::Schur(a.n, a.data(), u.data())) return false;
  a = Product(Product(u, function(a)), u, Form::kAdjoint);
  return true;
}

// Sets `root` to the square root of a symmetric matrix without negative eigenvalues, such as a covariance, by its
// eigenvectors. Returns false for other matrices.
bool SymmetricRoot(const RealSquare& a, RealSquare& root) {
  for (int64_t j = 0; j < a.n; ++j) {
    for (int64_t i = 0; i < j; ++i) {
      if (a(i, j) != a(j, i)) return false;
    }
  }
  RealSquare u = a, scaled(a.n);
  PoolVector<double> values(a.n);
  std::vector<double> work;
  if (!lapack::HermitianEigen(true, a.n, u.data(), values.data(), work)) return false;
  if (std::any_of(values.begin(), values.end(), [](double value) { return value < 0; })) return false;
  for (int64_t j = 0; j < a.n; ++j) {
    const double factor = std::sqrt(values[j]);
    for (int64_t i = 0; i < a.n; ++i) scaled(i, j) = u(i, j) * factor;
  }
  root = Product(scaled, u, Form::kTransposed);
  return true;
}

// Computes the square root of a real matrix with real, non-negative eigenvalues in real numbers.
// Returns false for other matrices.
bool RealRootOf(Square& a) {
  if (std::any_of(a.elements.begin(), a.elements.end(), [](const Complex& x) { return x.imag() != 0; })) return false;
  RealSquare t(a.n), u(a.n);
  for (int64_t i = 0; i < a.size(); ++i) t.elements[i] = a.elements[i].real();
  RealSquare root(a.n);
  if (!SymmetricRoot(t, root)) {
    if (!lapack::RealSchur(a.n, t.data(), u.data())) return false;
    for (int64_t i = 0; i < a.n; ++i) {
      if (t(i, i) < 0 || (i + 1 < a.n && t(i + 1, i) != 0)) return false;
    }
    root = Product(Product(u, RootOfTriangle(t)), u, Form::kTransposed);
  }
  std::copy_n(root.data(), root.size(), a.data());
  return true;
}
bool SquareRootOf(Square& a) { return RealRootOf(a) || BySchur(a, SquareRoot); }
bool LogarithmOf(Square& a) { return BySchur(a, Logarithm); }

// Scaling and squaring with the rational approximation p(x) / p(-x) of degree 13
// (Higham, "The scaling and squaring method for the matrix exponential
// revisited", 2005): |x| must be below 5.37 for double precision.
bool ExponentialOf(Square& a) {
  constexpr double kB[] = {64764752532480000,
                           32382376266240000,
                           7771770303897600,
                           1187353796428800,
                           129060195264000,
                           10559470521600,
                           670442572800,
                           33522128640,
                           1323241920,
                           40840800,
                           960960,
                           16380,
                           182,
                           1};
  int squarings = 0;
  for (double norm = Norm(a); norm > 5.371920351148152 && squarings < 2000; norm /= 2) ++squarings;
  for (Complex& x : a.elements) x = Complex(std::ldexp(x.real(), -squarings), std::ldexp(x.imag(), -squarings));
  const Square a2 = Product(a, a), a4 = Product(a2, a2), a6 = Product(a2, a4);
  // c6 a^6 + c4 a^4 + c2 a^2.
  const auto polynomial = [&](double c6, double c4, double c2) {
    Square sum(a.n);
    Add(c6, a6, sum);
    Add(c4, a4, sum);
    Add(c2, a2, sum);
    return sum;
  };
  // The odd part, times a, and the even part.
  Square odd = Product(a6, polynomial(kB[13], kB[11], kB[9])), even = Product(a6, polynomial(kB[12], kB[10], kB[8]));
  Add(1, polynomial(kB[7], kB[5], kB[3]), odd);
  AddToDiagonal(kB[1], odd);
  Add(1, polynomial(kB[6], kB[4], kB[2]), even);
  AddToDiagonal(kB[0], even);
  odd = Product(a, odd);
  Square numerator = even;
  Add(1, odd, numerator);
  Add(-1, odd, even);
  // Both are polynomials of a and commute, so the row-major system can be solved directly.
  std::vector<int> pivots(a.n);
  Square transposed(a.n);
  Transpose(even.data(), a.n, a.n, transposed.data());
  if (!lapack::Lu(a.n, transposed.data(), pivots.data())) return false;
  lapack::SolveLuRows(a.n, a.n, transposed.data(), pivots.data(), numerator.data());
  a = std::move(numerator);
  for (; squarings > 0; --squarings) a = Product(a, a);
  return true;
}

class MatrixFunctionKernel : public Kernel {
 public:
  // `function` replaces a matrix by its value, or returns false if there is none.
  explicit MatrixFunctionKernel(bool (*function)(Square&)) : function_(function) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    ASSIGN_OR_RETURN(const MatrixBatch m, MatrixBatch::OfSquare(x));
    ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, x.shape()));
    if (x.num_elements() == 0) return absl::OkStatus();
    RETURN_IF_ERROR(CheckSides({m.rows}));
    const int64_t n = m.rows;
    return ForEachMatrix(context, x.dtype(), m.count, LinalgCost(n, n, n, 100),
                         [&]<typename S>(MatrixScratch<S>& scratch, int64_t i) {
                           scratch.a.resize(n * n);
                           LoadColumns(x, i, n, n, scratch.a.data());
                           Apply(static_cast<int>(n), scratch.a.data());
                           StoreColumns(scratch.a.data(), i, n, n, out);
                           return absl::OkStatus();
                         });
  }

 private:
  template <typename S>
  void Apply(int n, S* a) const {
    constexpr bool is_complex = !std::is_same_v<S, lapack::Real<S>>;
    Square y(n);
    std::copy_n(a, y.size(), y.data());
    bool good = AllFinite(a, y.size()) && function_(y);
    if (good && !is_complex) {
      // A real matrix without a real root has no result.
      double size = 0, imaginary = 0;
      for (const Complex& element : y.elements) {
        size = std::max(size, std::abs(element));
        imaginary = std::max(imaginary, std::fabs(element.imag()));
      }
      good = imaginary <= 1e-6 * (1 + size);
    }
    for (int64_t k = 0; k < y.size(); ++k) {
      if constexpr (is_complex) {
        a[k] = good ? S(y.elements[k]) : S(NaN<double>(), NaN<double>());
      } else {
        a[k] = good ? static_cast<S>(y.elements[k].real()) : NaN<S>();
      }
    }
  }

  bool (*const function_)(Square&);
};

Op FunctionOp(absl::string_view name, absl::string_view types, bool (*function)(Square&)) {
  return Op(name)
      .Input("input: T")
      .Output("output: T")
      .Attr(types)
      .Shape(SquareMatrixShape)
      .Kernel<MatrixFunctionKernel>(function);
}

const OpRegistration kMatrixFunctionsOps[] = {
    FunctionOp("MatrixSquareRoot", "T: {double, float, half, complex64, complex128}", SquareRootOf),
    FunctionOp("MatrixLogarithm", "T: {complex64, complex128}", LogarithmOf),
    FunctionOp("MatrixExponential", "T: {double, float, half, complex64, complex128}", ExponentialOf),
};

}  // namespace
}  // namespace thalweg
