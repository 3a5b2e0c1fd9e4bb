#include "thalweg/ops/linalg/dense_matrix.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace thalweg {
namespace {

using Complex = std::complex<double>;
constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

inline double Conj(double x) { return x; }
inline Complex Conj(Complex x) { return std::conj(x); }
inline double SquaredSize(double x) { return x * x; }
inline double SquaredSize(Complex x) { return x.real() * x.real() + x.imag() * x.imag(); }

// A reflection I - tau v v^H, v[0] = 1, that maps x to a multiple (beta) of the
// first unit vector. x becomes v.
template <typename S>
struct Reflection {
  S tau = S(0);
  double beta = 0;
};
template <typename S>
Reflection<S> Reflect(std::vector<S>& x) {
  double tail = 0;
  for (size_t i = 1; i < x.size(); ++i) tail += SquaredSize(x[i]);
  Reflection<S> r;
  const S first = x[0];
  if (tail <= std::numeric_limits<double>::min() &&
      SquaredSize(std::imag(first)) <= std::numeric_limits<double>::min()) {
    r.beta = std::real(first);
    std::fill(x.begin(), x.end(), S(0));
  } else {
    r.beta = std::sqrt(SquaredSize(first) + tail);
    if (std::real(first) >= 0) r.beta = -r.beta;
    for (size_t i = 1; i < x.size(); ++i) x[i] /= first - r.beta;
    r.tau = Conj((r.beta - first) / r.beta);
  }
  x[0] = S(1);
  return r;
}

// Rows [first, ...) of columns [from, ...) of a become (I - tau v v^H) times
// them.
template <typename S>
void ApplyLeft(const std::vector<S>& v, S tau, int64_t first, int64_t from, Matrix<S>* a) {
  if (tau == S(0)) return;
  for (int64_t j = from; j < a->columns(); ++j) {
    S dot(0);
    for (size_t i = 0; i < v.size(); ++i) dot += Conj(v[i]) * (*a)(first + i, j);
    dot *= tau;
    for (size_t i = 0; i < v.size(); ++i) (*a)(first + i, j) -= v[i] * dot;
  }
}

// Columns [first, ...) become them times (I - tau v v^H).
template <typename S>
void ApplyRight(const std::vector<S>& v, S tau, int64_t first, Matrix<S>* a) {
  if (tau == S(0)) return;
  for (int64_t i = 0; i < a->rows(); ++i) {
    S dot(0);
    for (size_t j = 0; j < v.size(); ++j) dot += (*a)(i, first + j) * v[j];
    dot *= tau;
    for (size_t j = 0; j < v.size(); ++j) (*a)(i, first + j) -= dot * Conj(v[j]);
  }
}

// The rotation that makes a positive 2 x 2 Hermitian matrix [[a, g], [g, b]]
// diagonal: p' = c p - s q, q' = s p + c q.
struct Rotation {
  double c = 1;
  double s = 0;
};
Rotation Diagonalize(double a, double g, double b) {
  const double zeta = (b - a) / (2 * g);
  const double t = (zeta >= 0 ? 1 : -1) / (std::fabs(zeta) + std::sqrt(1 + zeta * zeta));
  const double c = 1 / std::sqrt(1 + t * t);
  return {c, c * t};
}

// Makes columns [known, columns) of m orthonormal to all before: each the unit
// vector that those leave most of.
template <typename S>
void CompleteBasis(int64_t known, Matrix<S>* m) {
  for (int64_t k = known; k < m->columns(); ++k) {
    int64_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < m->rows(); ++i) {
      double taken = 0;
      for (int64_t j = 0; j < k; ++j) taken += SquaredSize((*m)(i, j));
      if (taken < least) least = taken, best = i;
    }
    std::vector<S> x(m->rows());
    x[best] = S(1);
    for (int round = 0; round < 2; ++round) {  // twice is enough
      for (int64_t j = 0; j < k; ++j) {
        S dot(0);
        for (int64_t i = 0; i < m->rows(); ++i) dot += Conj((*m)(i, j)) * x[i];
        for (int64_t i = 0; i < m->rows(); ++i) x[i] -= dot * (*m)(i, j);
      }
    }
    double norm = 0;
    for (const S& v : x) norm += SquaredSize(v);
    for (int64_t i = 0; i < m->rows(); ++i) (*m)(i, k) = x[i] / std::sqrt(norm);
  }
}

}  // namespace

template <typename S>
Matrix<S> Matrix<S>::Adjoint() const {
  Matrix t(columns_, rows_);
  for (int64_t i = 0; i < rows_; ++i) {
    for (int64_t j = 0; j < columns_; ++j) t(j, i) = Conj((*this)(i, j));
  }
  return t;
}

template <typename S>
bool Matrix<S>::AllFinite() const {
  return std::all_of(elements_.begin(), elements_.end(),
                     [](S x) { return std::isfinite(std::real(x)) && std::isfinite(std::imag(x)); });
}

template <typename S>
Matrix<S> Multiply(const Matrix<S>& a, const Matrix<S>& b) {
  Matrix<S> c(a.rows(), b.columns());
  for (int64_t i = 0; i < a.rows(); ++i) {
    for (int64_t k = 0; k < a.columns(); ++k) {
      const S x = a(i, k);
      for (int64_t j = 0; j < b.columns(); ++j) c(i, j) += x * b(k, j);
    }
  }
  return c;
}

template <typename S>
LuFactors<S> FactorLu(Matrix<S> a) {
  const int64_t n = a.rows();
  LuFactors<S> f{std::move(a), std::vector<int64_t>(n)};
  Matrix<S>& m = f.lu;
  std::iota(f.rows.begin(), f.rows.end(), 0);
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i) {
      if (std::abs(m(i, k)) > std::abs(m(pivot, k))) pivot = i;
    }
    if (pivot != k) {
      std::swap_ranges(&m(k, 0), &m(k, 0) + n, &m(pivot, 0));
      std::swap(f.rows[k], f.rows[pivot]);
      f.sign = -f.sign;
    }
    if (!(std::abs(m(k, k)) > 0)) {
      f.singular = true;
      continue;
    }
    for (int64_t i = k + 1; i < n; ++i) {
      const S factor = m(i, k) /= m(k, k);
      for (int64_t j = k + 1; j < n; ++j) m(i, j) -= factor * m(k, j);
    }
  }
  return f;
}

template <typename S>
Matrix<S> SolveLu(const LuFactors<S>& f, const Matrix<S>& b) {
  const int64_t n = f.lu.rows();
  Matrix<S> x(n, b.columns());
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < b.columns(); ++j) x(i, j) = b(f.rows[i], j);
    for (int64_t k = 0; k < i; ++k) {
      for (int64_t j = 0; j < b.columns(); ++j) x(i, j) -= f.lu(i, k) * x(k, j);
    }
  }
  SolveTriangular(f.lu, false, &x);
  return x;
}

template <typename S>
bool FactorCholesky(Matrix<S>* a) {
  const int64_t n = a->rows();
  for (int64_t j = 0; j < n; ++j) {
    double diagonal = std::real((*a)(j, j));
    for (int64_t k = 0; k < j; ++k) diagonal -= SquaredSize((*a)(j, k));
    if (!(diagonal > 0)) return false;
    const double root = std::sqrt(diagonal);
    (*a)(j, j) = S(root);
    for (int64_t i = j + 1; i < n; ++i) {
      S sum = (*a)(i, j);
      for (int64_t k = 0; k < j; ++k) sum -= (*a)(i, k) * Conj((*a)(j, k));
      (*a)(i, j) = sum / root;
    }
    for (int64_t i = 0; i < j; ++i) (*a)(i, j) = S(0);
  }
  return true;
}

template <typename S>
void SolveTriangular(const Matrix<S>& a, bool lower, Matrix<S>* b) {
  const int64_t n = a.rows(), width = b->columns();
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = lower ? step : n - 1 - step;
    for (int64_t k = lower ? 0 : i + 1; k < (lower ? i : n); ++k) {
      for (int64_t j = 0; j < width; ++j) (*b)(i, j) -= a(i, k) * (*b)(k, j);
    }
    for (int64_t j = 0; j < width; ++j) (*b)(i, j) /= a(i, i);
  }
}

template <typename S>
QrFactors<S> FactorQr(Matrix<S> a, int64_t width) {
  const int64_t m = a.rows(), n = a.columns(), steps = std::min(m, n);
  std::vector<std::vector<S>> vectors;
  std::vector<S> taus;
  for (int64_t k = 0; k < steps; ++k) {
    std::vector<S> x(m - k);
    for (int64_t i = k; i < m; ++i) x[i - k] = a(i, k);
    const Reflection<S> r = Reflect(x);
    ApplyLeft(x, r.tau, k, k + 1, &a);
    a(k, k) = S(r.beta);
    for (int64_t i = k + 1; i < m; ++i) a(i, k) = S(0);
    vectors.push_back(std::move(x));
    taus.push_back(r.tau);
  }
  Matrix<S> q = Matrix<S>::Identity(m, width);
  for (int64_t k = steps - 1; k >= 0; --k) ApplyLeft(vectors[k], Conj(taus[k]), k, 0, &q);
  Matrix<S> r(width, n);
  std::copy_n(a.data(), r.size(), r.data());
  return {std::move(q), std::move(r)};
}

// One-sided Jacobi (Hestenes, 1958): columns are rotated in pairs until all are
// orthogonal; their lengths are the singular values.
template <typename S>
SvdFactors<S> FactorSvd(const Matrix<S>& a, bool full) {
  if (a.rows() < a.columns()) {
    SvdFactors<S> f = FactorSvd(a.Adjoint(), full);
    std::swap(f.u, f.v);
    return f;
  }
  const int64_t m = a.rows(), n = a.columns();
  // Rows of these are columns.
  Matrix<S> b(n, m), v = Matrix<S>::Identity(n, n);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) b(j, i) = a(i, j);
  }
  const auto rotate = [](S* p, S* q, int64_t count, const Rotation& r, S phase) {
    for (int64_t i = 0; i < count; ++i) {
      const S x = p[i], y = q[i] * phase;
      p[i] = r.c * x - r.s * y;
      q[i] = r.s * x + r.c * y;
    }
  };
  bool rotated = true;
  for (int sweep = 0; sweep < 60 && rotated; ++sweep) {
    rotated = false;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        double alpha = 0, beta = 0;
        S gamma(0);
        for (int64_t i = 0; i < m; ++i) {
          alpha += SquaredSize(b(p, i));
          beta += SquaredSize(b(q, i));
          gamma += Conj(b(p, i)) * b(q, i);
        }
        const double size = std::abs(gamma);
        if (!(size > kEpsilon * std::sqrt(alpha * beta)) || size < std::numeric_limits<double>::min()) continue;
        rotated = true;
        const Rotation r = Diagonalize(alpha, size, beta);
        const S phase = Conj(gamma / size);
        rotate(&b(p, 0), &b(q, 0), m, r, phase);
        rotate(&v(p, 0), &v(q, 0), n, r, phase);
      }
    }
  }
  std::vector<double> lengths(n);
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < m; ++i) lengths[j] = std::hypot(lengths[j], std::abs(b(j, i)));
  }
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) { return lengths[x] > lengths[y]; });
  SvdFactors<S> f{Matrix<S>(m, full ? m : n), std::vector<double>(n), Matrix<S>(n, n)};
  int64_t rank = 0;
  for (int64_t k = 0; k < n; ++k) {
    const int64_t j = order[k];
    f.s[k] = lengths[j];
    for (int64_t i = 0; i < n; ++i) f.v(i, k) = v(j, i);
    if (lengths[j] <= kEpsilon * static_cast<double>(m) * lengths[order[0]]) continue;  // no direction of its own
    for (int64_t i = 0; i < m; ++i) f.u(i, k) = b(j, i) / lengths[j];
    rank = k + 1;
  }
  CompleteBasis(rank, &f.u);
  return f;
}

// Jacobi (1846): rotations make the elements beside the diagonal vanish.
template <typename S>
HermitianFactors<S> FactorHermitian(Matrix<S> a) {
  const int64_t n = a.rows();
  double size = 0;
  for (int64_t i = 0; i < n; ++i) {
    a(i, i) = S(std::real(a(i, i)));
    for (int64_t j = 0; j < i; ++j) a(j, i) = Conj(a(i, j));
    for (int64_t j = 0; j <= i; ++j) size = std::max(size, std::abs(a(i, j)));
  }
  Matrix<S> v = Matrix<S>::Identity(n, n);
  bool rotated = true;
  for (int sweep = 0; sweep < 60 && rotated; ++sweep) {
    rotated = false;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        const double off = std::abs(a(p, q));
        if (!(off > kEpsilon * 1e-2 * size) || off < std::numeric_limits<double>::min()) continue;
        rotated = true;
        const Rotation r = Diagonalize(std::real(a(p, p)), off, std::real(a(q, q)));
        const S phase = a(p, q) / off, back = Conj(phase);
        for (Matrix<S>* m : {&a, &v}) {
          for (int64_t i = 0; i < n; ++i) {
            const S x = (*m)(i, p), y = (*m)(i, q) * back;
            (*m)(i, p) = r.c * x - r.s * y;
            (*m)(i, q) = r.s * x + r.c * y;
          }
        }
        for (int64_t j = 0; j < n; ++j) {
          const S x = a(p, j), y = a(q, j) * phase;
          a(p, j) = r.c * x - r.s * y;
          a(q, j) = r.s * x + r.c * y;
        }
        a(p, q) = a(q, p) = S(0);
      }
    }
  }
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t x, int64_t y) { return std::real(a(x, x)) < std::real(a(y, y)); });
  HermitianFactors<S> f{std::vector<double>(n), Matrix<S>(n, n)};
  for (int64_t k = 0; k < n; ++k) {
    f.values[k] = std::real(a(order[k], order[k]));
    for (int64_t i = 0; i < n; ++i) f.vectors(i, k) = v(i, order[k]);
  }
  return f;
}

namespace {

// The eigenvalue of the last 2 x 2 block of rows up to `high` that is closer to
// the last element (Wilkinson's shift).
Complex Shift(const Matrix<Complex>& t, int64_t high) {
  const Complex a = t(high - 1, high - 1), b = t(high - 1, high), c = t(high, high - 1), d = t(high, high);
  const Complex half = (a - d) / 2.0, root = std::sqrt(half * half + b * c);
  const Complex first = d + half + root, second = d + half - root;
  return std::abs(first - d) < std::abs(second - d) ? first : second;
}

// One step t - shift = q r, t' = r q + shift on rows and columns [low, high].
void QrStep(Complex shift, int64_t low, int64_t high, Matrix<Complex>* t, Matrix<Complex>* u) {
  Matrix<Complex>& m = *t;
  const int64_t n = m.rows();
  for (int64_t i = low; i <= high; ++i) m(i, i) -= shift;
  std::vector<std::pair<Complex, Complex>> rotations;
  for (int64_t k = low; k < high; ++k) {
    const Complex a = m(k, k), b = m(k + 1, k);
    const double r = std::hypot(std::abs(a), std::abs(b));
    const Complex c = r == 0 ? Complex(1) : a / r, s = r == 0 ? Complex(0) : b / r;
    for (int64_t j = k; j < n; ++j) {
      const Complex x = m(k, j), y = m(k + 1, j);
      m(k, j) = std::conj(c) * x + std::conj(s) * y;
      m(k + 1, j) = c * y - s * x;
    }
    rotations.emplace_back(c, s);
  }
  for (int64_t k = low; k < high; ++k) {
    const Complex c = rotations[k - low].first, s = rotations[k - low].second;
    const auto turn = [&](Matrix<Complex>& w, int64_t rows) {
      for (int64_t i = 0; i < rows; ++i) {
        const Complex x = w(i, k), y = w(i, k + 1);
        w(i, k) = x * c + y * s;
        w(i, k + 1) = y * std::conj(c) - x * std::conj(s);
      }
    };
    turn(m, std::min(k + 2, high + 1));
    turn(*u, n);
  }
  for (int64_t i = low; i <= high; ++i) m(i, i) += shift;
}

}  // namespace

SchurFactors FactorSchur(Matrix<Complex> a) {
  const int64_t n = a.rows();
  SchurFactors f{Matrix<Complex>::Identity(n, n), std::move(a)};
  Matrix<Complex>& t = f.t;
  for (int64_t k = 0; k + 2 < n; ++k) {  // to Hessenberg's form
    std::vector<Complex> x(n - k - 1);
    for (int64_t i = k + 1; i < n; ++i) x[i - k - 1] = t(i, k);
    const Reflection<Complex> r = Reflect(x);
    ApplyLeft(x, r.tau, k + 1, k, &t);
    ApplyRight(x, std::conj(r.tau), k + 1, &t);
    ApplyRight(x, std::conj(r.tau), k + 1, &f.u);
    for (int64_t i = k + 2; i < n; ++i) t(i, k) = 0;
  }
  int64_t high = n - 1;
  int tries = 0;
  while (high > 0) {
    int64_t low = high;
    for (; low > 0; --low) {
      if (std::abs(t(low, low - 1)) <= kEpsilon * (std::abs(t(low, low)) + std::abs(t(low - 1, low - 1)))) {
        t(low, low - 1) = 0;
        break;
      }
    }
    if (low == high) {
      --high;
      tries = 0;
      continue;
    }
    if (++tries > 300) {
      f.converged = false;
      return f;
    }
    // Now and then another shift, against cycles.
    const Complex shift =
        tries % 10 == 0 ? Complex(std::abs(t(high, high - 1)) + std::abs(t(high, high))) : Shift(t, high);
    QrStep(shift, low, high, &t, &f.u);
  }
  return f;
}

#define THALWEG_MATRIX_(S)                                                     \
  template class Matrix<S>;                                                    \
  template Matrix<S> Multiply(const Matrix<S>& a, const Matrix<S>& b);         \
  template LuFactors<S> FactorLu(Matrix<S> a);                                 \
  template Matrix<S> SolveLu(const LuFactors<S>& factors, const Matrix<S>& b); \
  template bool FactorCholesky(Matrix<S>* a);                                  \
  template void SolveTriangular(const Matrix<S>& a, bool lower, Matrix<S>* b); \
  template QrFactors<S> FactorQr(Matrix<S> a, int64_t width);                  \
  template SvdFactors<S> FactorSvd(const Matrix<S>& a, bool full);             \
  template HermitianFactors<S> FactorHermitian(Matrix<S> a);
THALWEG_MATRIX_(double)
THALWEG_MATRIX_(Complex)
#undef THALWEG_MATRIX_

}  // namespace thalweg
