// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/linalg/small_matrices.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>

namespace thalweg::lapack {
namespace {

using Complex = std::complex<double>;

constexpr int kSmallElements = kSmallMatrix * kSmallMatrix;

// The rotation [c -s; s c] that makes the symmetric matrix [x z; z y] diagonal.
template <typename R>
struct Rotation {
  R c, s;
  Rotation(R x, R y, R z) {
    const R theta = (y - x) / (2 * z);
    const R t = (theta < 0 ? R(-1) : R(1)) / (std::abs(theta) + std::sqrt(theta * theta + 1));
    c = 1 / std::sqrt(t * t + 1);
    s = t * c;
  }
  // Rotates n pairs of elements, which are `stride` apart.
  void Apply(R* p, R* q, int n, int stride = 1) const {
    for (int i = 0; i < n * stride; i += stride) {
      const R x = p[i], y = q[i];
      p[i] = c * x - s * y;
      q[i] = s * x + c * y;
    }
  }
};

template <typename R>
void SetIdentity(int n, R* a) {
  for (int i = 0; i < n * n; ++i) a[i] = i % (n + 1) == 0;
}

// Calls rotate(p, q) for all p < q < n until it returns false for all of them. Returns false if that takes too long:
// each round squares the error, so that five or six are usual.
template <typename F>
bool RotateAllPairs(int n, const F& rotate) {
  constexpr int kMostRounds = 30;
  for (int round = 0; round < kMostRounds; ++round) {
    bool rotated = false;
    for (int p = 0; p < n; ++p) {
      for (int q = p + 1; q < n; ++q) rotated |= rotate(p, q);
    }
    if (!rotated) return true;
  }
  return false;
}

}  // namespace

// By Jacobi's method: rotations of two rows and columns make one element after the other zero.
template <typename R>
bool SmallSymmetricEigen(int n, R* a, R* values) {
  constexpr R kEpsilon = std::numeric_limits<R>::epsilon();
  R rest[kSmallElements], vectors[kSmallElements];
  R largest = 0;
  for (int i = 0; i < n * n; ++i) {
    rest[i] = i % n <= i / n ? a[i] : a[i % n * n + i / n];  // from the upper triangle
    largest = std::max(largest, std::abs(rest[i]));
  }
  SetIdentity(n, vectors);
  const bool good = RotateAllPairs(n, [&](int p, int q) {
    if (std::abs(rest[q * n + p]) <= kEpsilon * largest) return false;
    const Rotation<R> rotation(rest[p * n + p], rest[q * n + q], rest[q * n + p]);
    rotation.Apply(rest + p * n, rest + q * n, n);
    rotation.Apply(rest + p, rest + q, n, n);
    rotation.Apply(vectors + p * n, vectors + q * n, n);
    return true;
  });
  if (!good) return false;
  int order[kSmallMatrix];
  std::iota(order, order + n, 0);
  std::sort(order, order + n, [&](int i, int j) { return rest[i * n + i] < rest[j * n + j]; });
  for (int i = 0; i < n; ++i) {
    values[i] = rest[order[i] * n + order[i]];
    std::copy_n(vectors + order[i] * n, n, a + i * n);
  }
  return true;
}

// By one-sided Jacobi: rotations of two columns make one pair of columns of u diag(s) after the other orthogonal
// (Hestenes 1958). In a nearly singular matrix columns of u would be undetermined.
template <typename R>
bool SmallSvd(bool vectors, int n, const R* a, R* s, R* u, R* v) {
  constexpr R kEpsilon = std::numeric_limits<R>::epsilon();
  R columns[kSmallElements], right[kSmallElements];
  std::copy_n(a, n * n, columns);
  SetIdentity(n, right);
  const auto dot = [&](int p, int q) {
    return std::inner_product(columns + p * n, columns + p * n + n, columns + q * n, R(0));
  };
  const bool good = RotateAllPairs(n, [&](int p, int q) {
    const R pp = dot(p, p), qq = dot(q, q), pq = dot(p, q);
    if (!(std::abs(pq) > kEpsilon * std::sqrt(pp) * std::sqrt(qq))) return false;
    const Rotation<R> rotation(pp, qq, pq);
    rotation.Apply(columns + p * n, columns + q * n, n);
    if (vectors) rotation.Apply(right + p * n, right + q * n, n);
    return true;
  });
  R lengths[kSmallMatrix];
  int order[kSmallMatrix];
  for (int i = 0; i < n; ++i) lengths[i] = std::sqrt(dot(i, i));
  std::iota(order, order + n, 0);
  std::sort(order, order + n, [&](int i, int j) { return lengths[i] > lengths[j]; });
  // Squares must neither overflow nor vanish.
  const R largest = lengths[order[0]], least = lengths[order[n - 1]];
  constexpr R kLeast = std::numeric_limits<R>::min() / kEpsilon, kMost = std::numeric_limits<R>::max() / 64;
  if (!good || !(least > 100 * kEpsilon * largest) || !(least * least > kLeast) || !(largest * largest < kMost)) {
    return false;
  }
  for (int i = 0; i < n; ++i) {
    s[i] = lengths[order[i]];
    for (int j = 0; vectors && j < n; ++j) {
      u[i * n + j] = columns[order[i] * n + j] / s[i];
      v[j * n + i] = right[order[i] * n + j];
    }
  }
  return true;
}

namespace {

// A real Schur decomposition in progress: h becomes t. Element (i, j) of a matrix is [j * n + i].
struct SchurForm {
  const int n;
  double *const h, *const u;

  double& At(int i, int j) const { return h[j * n + i]; }

  // Reflects so that x[0..m), of m <= 3 elements, becomes a multiple of the first unit vector: rows `row` to
  // `row` + m - 1 of h from column `left` on, the same columns down to row `bottom`, and those of u.
  void Reflect(const double* x, int m, int row, int left, int bottom) const {
    double v[3] = {x[0], x[1], m == 3 ? x[2] : 0};
    const double length = std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    if (length == 0 || (v[1] == 0 && v[2] == 0)) return;
    v[0] += std::copysign(length, v[0]);
    const double scale = 2 / (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    const auto reflect = [&](double* from, int count, int step, int stride) {  // elements `step` apart, `count` times
      for (int i = 0; i < count; ++i, from += stride) {
        double sum = v[0] * from[0] + v[1] * from[step];
        if (m == 3) sum += v[2] * from[2 * step];
        sum *= scale;
        from[0] -= sum * v[0];
        from[step] -= sum * v[1];
        if (m == 3) from[2 * step] -= sum * v[2];
      }
    };
    reflect(&At(row, left), n - left, 1, n);
    reflect(&At(0, row), bottom + 1, n, 1);
    reflect(u + row * n, n, n, 1);
  }

  // Makes all elements below the first subdiagonal zero.
  void MakeHessenberg() const {
    for (int k = 0; k + 2 < n; ++k) {
      const double column[3] = {At(k + 1, k), At(k + 2, k), k + 3 < n ? At(k + 3, k) : 0};
      Reflect(column, n - k - 1, k + 1, k, n - 1);
      for (int i = k + 2; i < n; ++i) At(i, k) = 0;
    }
  }

  // One step of Francis' algorithm on rows `low` to `high`, at least three: two shifts at once, so that complex pairs
  // need no complex numbers.
  void DoubleShift(int low, int high, int iteration) const {
    double sum = At(high - 1, high - 1) + At(high, high);
    double product = At(high - 1, high - 1) * At(high, high) - At(high - 1, high) * At(high, high - 1);
    if (iteration % 10 == 0) {  // shifts from elsewhere, in case that these lead in circles
      const double size = std::abs(At(high, high - 1)) + std::abs(At(high - 1, high - 2));
      sum = 1.5 * size;
      product = size * size;
    }
    double x[3] = {At(low, low) * (At(low, low) - sum) + At(low, low + 1) * At(low + 1, low) + product,
                   At(low + 1, low) * (At(low, low) + At(low + 1, low + 1) - sum),
                   At(low + 1, low) * At(low + 2, low + 1)};
    for (int k = low; k < high; ++k) {
      const int m = std::min(3, high - k + 1);
      Reflect(x, m, k, std::max(k - 1, low), std::min(k + 3, high));
      if (k > low) {
        for (int i = k + 1; i < k + m; ++i) At(i, k - 1) = 0;
      }
      for (int i = 0; i < 3 && k + 1 + i <= high; ++i) x[i] = At(k + 1 + i, k);
    }
  }

  // Makes the element below the diagonal of the 2 x 2 block at k zero, if its eigenvalues are real.
  void Split(int k) const {
    const double p = (At(k, k) - At(k + 1, k + 1)) / 2, below = At(k + 1, k);
    const double q = p * p + At(k, k + 1) * below;
    if (q < 0) return;
    const double z = p + std::copysign(std::sqrt(q), p);  // (z, below) is an eigenvector
    const double length = std::sqrt(z * z + below * below), c = z / length, s = below / length;
    const auto rotate = [&](double& x, double& y) {
      const double old = x;
      x = c * x + s * y;
      y = c * y - s * old;
    };
    for (int j = k; j < n; ++j) rotate(At(k, j), At(k + 1, j));
    for (int i = 0; i <= k + 1; ++i) rotate(At(i, k), At(i, k + 1));
    for (int i = 0; i < n; ++i) rotate(u[k * n + i], u[(k + 1) * n + i]);
    At(k + 1, k) = 0;
  }

  // Returns false if it does not converge.
  bool Run() const {
    constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
    constexpr int kMostIterations = 30;  // two or three are usual
    MakeHessenberg();
    int iteration = 0;
    for (int high = n - 1; high > 0;) {
      int low = high;
      for (; low > 0; --low) {
        if (std::abs(At(low, low - 1)) > kEpsilon * (std::abs(At(low - 1, low - 1)) + std::abs(At(low, low)))) continue;
        At(low, low - 1) = 0;
        break;
      }
      if (high - low < 2) {
        if (low < high) Split(low);
        high = low - 1;
        iteration = 0;
      } else if (++iteration > kMostIterations) {
        return false;
      } else {
        DoubleShift(low, high, iteration);
      }
    }
    return true;
  }
};

double Divide(double x, double y) { return x / y; }
Complex Divide(const Complex& x, const Complex& y) { return x * std::conj(y) / std::norm(y); }

// Solves (t - value) x = 0 for x[0..top), where x[top..last] is given. t is a Schur form. X is double or Complex.
template <typename X>
void SolveUpwards(const SchurForm& t, int top, int last, X value, double least, X* x) {
  const auto rest = [&](int i, int from) {
    X sum(0);
    for (int j = from; j <= last; ++j) sum -= t.At(i, j) * x[j];
    return sum;
  };
  // Equal eigenvalues make a divisor zero.
  const auto divisor = [&](X d) { return std::abs(d) < least ? X(least) : d; };
  for (int i = top - 1; i >= 0; --i) {
    if (i == 0 || t.At(i, i - 1) == 0) {
      x[i] = Divide(rest(i, i + 1), divisor(t.At(i, i) - value));
      continue;
    }
    // Two equations, by elimination from the one with the larger first coefficient.
    X a = t.At(i - 1, i - 1) - value, b = t.At(i - 1, i), c = t.At(i, i - 1), d = t.At(i, i) - value;
    X r0 = rest(i - 1, i + 1), r1 = rest(i, i + 1);
    if (std::abs(a) < std::abs(c)) {
      std::swap(a, c);
      std::swap(b, d);
      std::swap(r0, r1);
    }
    const X factor = Divide(c, a);
    x[i] = Divide(r1 - factor * r0, divisor(d - factor * b));
    x[i - 1] = Divide(r0 - b * x[i], a);
    --i;
  }
}

// Stores u x, of length 1 and with a real element of the largest size, and its conjugate in the column behind it if the
// eigenvalue is one of a pair.
template <typename R, typename X>
void StoreVector(const SchurForm& t, int last, const X* x, bool pair, std::complex<R>* to) {
  X vector[kSmallMatrix];
  double sum = 0;
  int largest = 0;
  for (int i = 0; i < t.n; ++i) {
    vector[i] = X(0);
    for (int j = 0; j <= last; ++j) vector[i] += t.u[j * t.n + i] * x[j];
    sum += std::norm(vector[i]);
    if (std::norm(vector[i]) > std::norm(vector[largest])) largest = i;
  }
  X factor(1 / std::sqrt(sum));
  if (pair) factor *= Divide(X(std::abs(vector[largest])), vector[largest]);
  for (int i = 0; i < t.n; ++i) {
    const Complex element = pair && i == largest ? std::abs(vector[i] * factor) : vector[i] * factor;
    to[i] = std::complex<R>(element);
    if (pair) to[t.n + i] = std::conj(to[i]);
  }
}

}  // namespace

bool SmallSchur(int n, double* a, double* u) {
  // Products of four elements must neither overflow nor vanish.
  constexpr double kLeast = 1e-70, kMost = 1e70;
  double largest = 0;
  for (int i = 0; i < n * n; ++i) largest = std::max(largest, std::abs(a[i]));
  if (!(largest > kLeast && largest < kMost)) return false;
  double h[kSmallElements];
  std::copy_n(a, n * n, h);
  SetIdentity(n, u);
  if (!SchurForm{n, h, u}.Run()) return false;
  std::copy_n(h, n * n, a);
  return true;
}

template <typename R>
bool SmallEigen(int n, const R* a, std::complex<R>* values, std::complex<R>* vectors) {
  // Where elements differ more, LAPACK gains digits by balancing rows against columns.
  constexpr R kMostRatio = 1e4;
  double t[kSmallElements], u[kSmallElements];
  R least = std::numeric_limits<R>::infinity(), largest = 0;
  for (int i = 0; i < n * n; ++i) {
    const R size = std::abs(a[i]);
    t[i] = a[i];
    largest = std::max(largest, size);
    if (size > 0) least = std::min(least, size);
  }
  if (largest > kMostRatio * least || !SmallSchur(n, t, u)) return false;
  const SchurForm form{n, t, u};
  const double smallest = std::numeric_limits<double>::epsilon() * static_cast<double>(largest);
  for (int k = 0; k < n; ++k) {
    if (k + 1 == n || form.At(k + 1, k) == 0) {
      values[k] = std::complex<R>(static_cast<R>(form.At(k, k)));
      if (vectors == nullptr) continue;
      double x[kSmallMatrix];
      x[k] = 1;
      SolveUpwards(form, k, k, form.At(k, k), smallest, x);
      StoreVector(form, k, x, false, vectors + k * n);
      continue;
    }
    const double p = (form.At(k, k) - form.At(k + 1, k + 1)) / 2, b = form.At(k, k + 1), c = form.At(k + 1, k);
    const Complex value(form.At(k + 1, k + 1) + p, std::sqrt(-(p * p + b * c)));
    values[k] = std::complex<R>(value);
    values[k + 1] = std::conj(values[k]);
    if (vectors != nullptr) {
      Complex x[kSmallMatrix];
      x[k] = std::abs(b) >= std::abs(c) ? Complex(b) : value - form.At(k + 1, k + 1);
      x[k + 1] = std::abs(b) >= std::abs(c) ? value - form.At(k, k) : Complex(c);
      SolveUpwards(form, k, k + 1, value, smallest, x);
      StoreVector(form, k + 1, x, true, vectors + k * n);
    }
    ++k;
  }
  return true;
}

#define THALWEG_SMALL_MATRICES_(R)                         \
  template bool SmallSymmetricEigen(int, R*, R*);          \
  template bool SmallSvd(bool, int, const R*, R*, R*, R*); \
  template bool SmallEigen(int, const R*, std::complex<R>*, std::complex<R>*);
THALWEG_SMALL_MATRICES_(float)
THALWEG_SMALL_MATRICES_(double)
#undef THALWEG_SMALL_MATRICES_

}  // namespace thalweg::lapack
