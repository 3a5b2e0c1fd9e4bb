// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/linalg/lapack.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

#include "thalweg/base/simd.h"
#include "thalweg/ops/linalg/small_matrices.h"

namespace thalweg::lapack {
namespace {
using ComplexFloat = std::complex<float>;
using ComplexDouble = std::complex<double>;
}  // namespace

// Fortran's interface: all arguments by address, and the lengths of strings at
// the end. x is LAPACK's letter for the type, S the type and R its real type.
// Those of the last two lists differ between real and complex types.
extern "C" {
#define THALWEG_LAPACK_(x, S, R)                                                                                \
  void x##potrf_(const char*, const int*, S*, const int*, int*, size_t);                                        \
  void x##getrf_(const int*, const int*, S*, const int*, int*, int*);                                           \
  void x##trsm_(const char*, const char*, const char*, const char*, const int*, const int*, const S*, const S*, \
                const int*, S*, const int*, size_t, size_t, size_t, size_t);                                    \
  void x##gemm_(const char*, const char*, const int*, const int*, const int*, const S*, const S*, const int*,   \
                const S*, const int*, const S*, S*, const int*, size_t, size_t);                                \
  void x##geqrf_(const int*, const int*, S*, const int*, S*, S*, const int*, int*);
THALWEG_LAPACK_(s, float, float)
THALWEG_LAPACK_(d, double, double)
THALWEG_LAPACK_(c, ComplexFloat, float)
THALWEG_LAPACK_(z, ComplexDouble, double)
#undef THALWEG_LAPACK_

#define THALWEG_LAPACK_(x, S)                                                                                      \
  void x##syrk_(const char*, const char*, const int*, const int*, const S*, const S*, const int*, const S*, S*,    \
                const int*, size_t, size_t);                                                                       \
  void x##orgqr_(const int*, const int*, const int*, S*, const int*, const S*, S*, const int*, int*);              \
  void x##gesdd_(const char*, const int*, const int*, S*, const int*, S*, S*, const int*, S*, const int*, S*,      \
                 const int*, int*, int*, size_t);                                                                  \
  void x##syevd_(const char*, const char*, const int*, S*, const int*, S*, S*, const int*, int*, const int*, int*, \
                 size_t, size_t);                                                                                  \
  void x##geev_(const char*, const char*, const int*, S*, const int*, S*, S*, S*, const int*, S*, const int*, S*,  \
                const int*, int*, size_t, size_t);                                                                 \
  void x##gelsy_(const int*, const int*, const int*, S*, const int*, S*, const int*, int*, const S*, int*, S*,     \
                 const int*, int*);
THALWEG_LAPACK_(s, float)
THALWEG_LAPACK_(d, double)
#undef THALWEG_LAPACK_

#define THALWEG_LAPACK_(x, S, R)                                                                                 \
  void x##herk_(const char*, const char*, const int*, const int*, const R*, const S*, const int*, const R*, S*,  \
                const int*, size_t, size_t);                                                                     \
  void x##ungqr_(const int*, const int*, const int*, S*, const int*, const S*, S*, const int*, int*);            \
  void x##gesdd_(const char*, const int*, const int*, S*, const int*, R*, S*, const int*, S*, const int*, S*,    \
                 const int*, R*, int*, int*, size_t);                                                            \
  void x##heevd_(const char*, const char*, const int*, S*, const int*, R*, S*, const int*, R*, const int*, int*, \
                 const int*, int*, size_t, size_t);                                                              \
  void x##geev_(const char*, const char*, const int*, S*, const int*, S*, S*, const int*, S*, const int*, S*,    \
                const int*, R*, int*, size_t, size_t);                                                           \
  void x##gelsy_(const int*, const int*, const int*, S*, const int*, S*, const int*, int*, const R*, int*, S*,   \
                 const int*, R*, int*);
THALWEG_LAPACK_(c, ComplexFloat, float)
THALWEG_LAPACK_(z, ComplexDouble, double)
#undef THALWEG_LAPACK_

void zgees_(const char*, const char*, void*, const int*, ComplexDouble*, const int*, int*, ComplexDouble*,
            ComplexDouble*, const int*, ComplexDouble*, const int*, double*, int*, int*, size_t, size_t);

void dgees_(const char*, const char*, void*, const int*, double*, const int*, int*, double*, double*, double*,
            const int*, double*, const int*, int*, int*, size_t, size_t);

void openblas_set_num_threads(int);
}

namespace {

// The routine of a family for a type.
template <typename S, typename F1, typename F2, typename F3, typename F4>
constexpr auto Choose(F1 s, F2 d, F3 c, F4 z) {
  if constexpr (std::is_same_v<S, float>) {
    return s;
  } else if constexpr (std::is_same_v<S, double>) {
    return d;
  } else if constexpr (std::is_same_v<S, ComplexFloat>) {
    return c;
  } else {
    return z;
  }
}
#define THALWEG_ROUTINE_(S, name) Choose<S>(s##name, d##name, c##name, z##name)
#define THALWEG_ROUTINES_(S, real, complex) Choose<S>(s##real, d##real, c##complex, z##complex)

// Kernels share a batch of matrices between threads themselves. Debian's other
// builds of OpenBLAS, which may take the place of the serial one, have threads.
[[maybe_unused]] const bool kOneThread = (openblas_set_num_threads(1), true);

template <typename S>
constexpr bool kComplex = !std::is_same_v<S, Real<S>>;

const char* Letter(Triangle t) { return t == Triangle::kLower ? "L" : "U"; }
const char* Letter(Form f) { return f == Form::kPlain ? "N" : f == Form::kTransposed ? "T" : "C"; }

// Most routines take memory to work in, and say how much they want when asked
// with a size of -1. Calls run(work, size) with what it wants.
template <typename S, typename F>
void WithWork(std::vector<S>& work, const F& run) {
  if (!work.empty()) {
    const int known = static_cast<int>(work.size());
    return run(work.data(), &known);
  }
  const int ask = -1;
  S wanted(0);
  run(&wanted, &ask);
  // LAPACK returns the size as a float, which may have been rounded down.
  const double size = static_cast<double>(std::real(wanted)) * (1 + 1e-6) + 1;
  const int count = static_cast<int>(std::min<double>(size, std::numeric_limits<int>::max()));
  work.resize(count);
  run(work.data(), &count);
}

}  // namespace

template <typename S>
bool CholeskyRows(int n, S* a) {
  int info = 0;
  THALWEG_ROUTINE_(S, potrf_)("U", &n, a, &n, &info, 1);
  return info == 0;
}

namespace {

// The index of the element of the largest absolute value, the first of several.
template <typename R>
THALWEG_SIMD int LargestOf(const R* x, int n) {
  constexpr int kWidth = 16;
  R largest[kWidth] = {};
  int i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    for (int l = 0; l < kWidth; ++l) largest[l] = std::abs(x[i + l]) > largest[l] ? std::abs(x[i + l]) : largest[l];
  }
  R most = *std::max_element(largest, largest + kWidth);
  for (; i < n; ++i) most = std::max(most, std::abs(x[i]));
  for (i = 0; i < n; ++i) {
    if (std::abs(x[i]) == most) return i;
  }
  return 0;
}
template <typename R>
int LargestOf(const std::complex<R>* x, int n) {
  int best = 0;
  for (int i = 1; i < n; ++i) {
    if (std::abs(x[i]) > std::abs(x[best])) best = i;
  }
  return best;
}

// Swaps row i with row pivots[i] - 1, for each i from `first` to `last` - 1 in this order.
template <typename S>
void SwapRows(S* a, int columns, int stride, const int* pivots, int first, int last) {
  for (int j = 0; j < columns; ++j, a += stride) {
    for (int i = first; i < last; ++i) std::swap(a[i], a[pivots[i] - 1]);
  }
}

// One step of elimination: divides the n - 1 elements below the pivot x[0] by it, and subtracts their products with the
// pivot's row from the `columns` to the right.
template <typename S>
THALWEG_SIMD void Eliminate(int n, int columns, int stride, S* x) {
  const S pivot = x[0];
  for (int i = 1; i < n; ++i) x[i] /= pivot;
  if constexpr (!kComplex<S>) {
    S* y = x;
    for (int j = 0; j < columns; ++j) {
      y += stride;
      const S factor = y[0];
      for (int i = 1; i < n; ++i) y[i] -= x[i] * factor;
    }
  }
}

// LU of a few columns, one after the other. Of one column, if it is complex.
template <typename S>
bool LuOfPanel(int m, int n, S* a, int stride, int* pivots) {
  bool good = true;
  for (int j = 0; j < n; ++j) {
    S* const x = a + int64_t{j} * stride + j;
    pivots[j] = j + LargestOf(x, m - j) + 1;
    SwapRows(a, n, stride, pivots, j, j + 1);
    if (std::abs(x[0]) > 0) {
      Eliminate(m - j, n - j - 1, stride, x);
    } else {
      good = false;
    }
  }
  return good;
}

constexpr int kSmallTriangle = 8;

// SolveUnitLower() for n <= kSmallTriangle, with all columns of l in vectors of that length.
template <typename R>
THALWEG_SIMD void SolveSmallUnitLower(int n, int k, const R* l, int stride, R* b, int b_stride) {
  constexpr int kSize = kSmallTriangle;
  R columns[kSize][kSize] = {};
  for (int j = 0; j < n; ++j) {
    for (int i = j + 1; i < n; ++i) columns[j][i] = l[int64_t{j} * stride + i];
  }
  for (int column = 0; column < k; ++column, b += b_stride) {
    R x[kSize] = {};
    for (int i = 0; i < n; ++i) x[i] = b[i];
    for (int j = 0; j < kSize - 1; ++j) {
      const R factor = x[j];
      for (int i = 0; i < kSize; ++i) x[i] -= factor * columns[j][i];
    }
    for (int i = 0; i < n; ++i) b[i] = x[i];
  }
}

// Replaces b (n x k) by x with l x = b, where l is a lower triangle with a unit diagonal.
template <typename S>
void SolveUnitLower(int n, int k, const S* l, int stride, S* b, int b_stride) {
  const S one(1), minus_one(-1);
  if constexpr (kComplex<S>) {
    THALWEG_ROUTINE_(S, trsm_)("L", "L", "N", "U", &n, &k, &one, l, &stride, b, &b_stride, 1, 1, 1, 1);
  } else if (n <= kSmallTriangle) {
    SolveSmallUnitLower(n, k, l, stride, b, b_stride);
  } else {
    const int first = std::max(kSmallTriangle, n / 2 / kSmallTriangle * kSmallTriangle), second = n - first;
    SolveUnitLower(first, k, l, stride, b, b_stride);
    THALWEG_ROUTINE_(S, gemm_)
    ("N", "N", &second, &k, &first, &minus_one, l + first, &stride, b, &b_stride, &one, b + first, &b_stride, 1, 1);
    SolveUnitLower(second, k, l + int64_t{first} * stride + first, stride, b + first, b_stride);
  }
}

// Recursive LU of an m x n matrix in place, with columns `stride` apart: factors the left half,
// updates the right half, and factors that. Most of the work goes into products, of which LAPACK's
// own has fewer. For complex numbers LAPACK chooses the pivot by the largest |re| + |im| of a
// column. TensorFlow, whose pivots the Lu op exposes, uses the largest absolute value.
template <typename S>
bool RecursiveLu(int m, int n, S* a, int stride, int* pivots) {
  constexpr int kPanel = kComplex<S> ? 1 : kSmallTriangle;
  if (n <= kPanel) return LuOfPanel(m, n, a, stride, pivots);
  const int left = std::max(kPanel, n / 2 / kPanel * kPanel), right = n - left, below = m - left;
  S* const a12 = a + int64_t{left} * stride;
  S* const a22 = a12 + left;
  const S one(1), minus_one(-1);
  const bool left_good = RecursiveLu(m, left, a, stride, pivots);
  SwapRows(a12, right, stride, pivots, 0, left);
  SolveUnitLower(left, right, a, stride, a12, stride);
  THALWEG_ROUTINE_(S, gemm_)
  ("N", "N", &below, &right, &left, &minus_one, a + left, &stride, a12, &stride, &one, a22, &stride, 1, 1);
  const bool right_good = RecursiveLu(below, right, a22, stride, pivots + left);
  for (int i = left; i < n; ++i) pivots[i] += left;
  SwapRows(a, left, stride, pivots, left, n);
  return left_good && right_good;
}

}  // namespace

template <typename S>
bool Lu(int n, S* a, int* pivots) {
  return RecursiveLu(n, n, a, n, pivots);
}

template <typename S>
void SolveLuRows(int n, int k, const S* lu, const int* pivots, S* b) {
  for (int i = 0; i < n; ++i) {
    S *const row = b + int64_t{i} * k, *const other = b + (int64_t{pivots[i]} - 1) * k;
    if (row != other) std::swap_ranges(row, row + k, other);
  }
  // To LAPACK b is its transpose: x^T (L U)^T = (P b)^T.
  SolveTriangleRight(Triangle::kLower, Form::kTransposed, true, k, n, lu, n, b);
  SolveTriangleRight(Triangle::kUpper, Form::kTransposed, false, k, n, lu, n, b);
}

namespace {

// SolveTriangleRight for a small triangle: column after column, in strips of rows that stay in the
// cache. `upper` refers to op(t). Faster than OpenBLAS on some processors.
template <typename R>
THALWEG_SIMD void SolveSmall(bool upper, bool transposed, bool unit, int m, int n, const R* t, int stride, R* b,
                             int64_t b_stride) {
  constexpr int kStrip = 64;
  for (int start = 0; start < m; start += kStrip) {
    const int rows = std::min(kStrip, m - start);
    for (int64_t step = 0; step < n; ++step) {
      const int64_t j = upper ? step : n - 1 - step;
      R* const x = b + j * b_stride + start;
      for (int64_t k = upper ? 0 : j + 1; k < (upper ? j : n); ++k) {
        const R factor = transposed ? t[k * stride + j] : t[j * stride + k];
        const R* const y = b + k * b_stride + start;
        for (int i = 0; i < rows; ++i) x[i] -= factor * y[i];
      }
      const R diagonal = t[j * stride + j];
      for (int i = 0; i < rows && !unit; ++i) x[i] /= diagonal;
    }
  }
}

// Most of the work goes into products, which are faster than a solver for
// triangles, and only blocks on the diagonal into one.
template <typename S>
void SolveRight(Triangle triangle, Form form, bool unit, int m, int n, const S* t, int stride, S* b, int b_stride) {
  constexpr int kBlock = kComplex<S> ? 64 : 16;
  const S one(1), minus_one(-1);
  const bool upper = (triangle == Triangle::kUpper) == (form == Form::kPlain);  // op(t) is an upper triangle
  if (n <= kBlock) {
    if constexpr (kComplex<S>) {
      THALWEG_ROUTINE_(S, trsm_)
      ("R", Letter(triangle), Letter(form), unit ? "U" : "N", &m, &n, &one, t, &stride, b, &b_stride, 1, 1, 1, 1);
    } else {
      SolveSmall(upper, form != Form::kPlain, unit, m, n, t, stride, b, b_stride);
    }
    return;
  }
  const int first = std::max(kBlock / 2, n / 2 / kBlock * kBlock), second = n - first;
  S* const b2 = b + int64_t{first} * b_stride;
  const S *const t2 = t + int64_t{first} * stride + first, *const corner = triangle == Triangle::kLower
                                                                               ? t + first
                                                                               : t + int64_t{first} * stride;
  const auto product = [&](const S* x, int inner, S* y, int columns) {  // y -= x op(corner)
    THALWEG_ROUTINE_(S, gemm_)
    ("N", Letter(form), &m, &columns, &inner, &minus_one, x, &b_stride, corner, &stride, &one, y, &b_stride, 1, 1);
  };
  if (upper) {
    SolveRight(triangle, form, unit, m, first, t, stride, b, b_stride);
    product(b, first, b2, second);
    SolveRight(triangle, form, unit, m, second, t2, stride, b2, b_stride);
  } else {
    SolveRight(triangle, form, unit, m, second, t2, stride, b2, b_stride);
    product(b2, second, b, first);
    SolveRight(triangle, form, unit, m, first, t, stride, b, b_stride);
  }
}

// Sets w (n x n) to the inverse of the transpose of l, a lower triangle with a unit diagonal. It is an upper triangle.
// REQUIRES: w is the identity.
template <typename S>
void InvertUnitLower(int n, const S* l, int stride, S* w, int w_stride) {
  constexpr int kBlock = 16;
  if (n <= kBlock) return SolveRight(Triangle::kLower, Form::kTransposed, true, n, n, l, stride, w, w_stride);
  const int first = std::max(kBlock / 2, n / 2 / kBlock * kBlock), second = n - first;
  const S *const l21 = l + first, *const l22 = l21 + int64_t{first} * stride;
  S *const w12 = w + int64_t{first} * w_stride, *const w22 = w12 + first;
  const S minus_one(-1), zero(0);
  InvertUnitLower(first, l, stride, w, w_stride);
  InvertUnitLower(second, l22, stride, w22, w_stride);
  // w12 = -w11 l21^T w22
  THALWEG_ROUTINE_(S, gemm_)
  ("N", "T", &first, &second, &first, &minus_one, w, &w_stride, l21, &stride, &zero, w12, &w_stride, 1, 1);
  SolveRight(Triangle::kLower, Form::kTransposed, true, first, second, l22, stride, w12, w_stride);
}

}  // namespace

template <typename S>
void SolveTriangleRight(Triangle triangle, Form form, bool unit, int m, int n, const S* t, int stride, S* b) {
  SolveRight(triangle, form, unit, m, n, t, stride, b, m);
}

template <typename S>
void InvertLuRows(int n, const S* lu, const int* pivots, S* inverse) {
  std::fill_n(inverse, int64_t{n} * n, S(0));
  for (int64_t i = 0; i < n; ++i) inverse[i * n + i] = S(1);
  // To LAPACK `inverse` is its transpose, P^T L^-T U^-T. Half of L^-T is zero, which saves a fifth of the work against
  // solving for the rows of P.
  InvertUnitLower(n, lu, n, inverse, n);
  SolveTriangleRight(Triangle::kUpper, Form::kTransposed, false, n, n, lu, n, inverse);
  std::vector<int> order(n);  // element i of a row goes to order[i]
  std::iota(order.begin(), order.end(), 0);
  for (int i = 0; i < n; ++i) std::swap(order[i], order[pivots[i] - 1]);
  std::vector<S> row(n);
  for (int j = 0; j < n; ++j) {
    S* const to = inverse + int64_t{j} * n;
    std::copy_n(to, n, row.data());
    for (int i = 0; i < n; ++i) to[order[i]] = row[i];
  }
}

template <typename S>
void SolveTriangleRows(Triangle triangle, bool adjoint, int n, int k, const S* t, S* b) {
  // t is stored as its transpose: x^T op(t)^T = b^T.
  const Triangle stored = triangle == Triangle::kLower ? Triangle::kUpper : Triangle::kLower;
  SolveTriangleRight(stored, adjoint ? Form::kAdjoint : Form::kPlain, false, k, n, t, n, b);
}

template <typename S>
void Multiply(Form form_a, Form form_b, int m, int n, int k, const S* a, const S* b, S* c) {
  const S one(1), zero(0);
  const int stride_a = form_a == Form::kPlain ? m : k, stride_b = form_b == Form::kPlain ? k : n;
  THALWEG_ROUTINE_(S, gemm_)
  (Letter(form_a), Letter(form_b), &m, &n, &k, &one, a, &stride_a, b, &stride_b, &zero, c, &m, 1, 1);
}

template <typename S>
void Gram(Form form, int n, int k, const S* a, S* c) {
  const Real<S> one = 1, zero = 0;
  const int stride = form == Form::kPlain ? n : k;
  const char* const letter = form == Form::kPlain ? "N" : kComplex<S> ? "C" : "T";
  THALWEG_ROUTINES_(S, syrk_, herk_)("U", letter, &n, &k, &one, a, &stride, &zero, c, &n, 1, 1);
}

template <typename S>
void Qr(int m, int n, S* a, std::vector<S>& tau, std::vector<S>& work) {
  tau.resize(std::min(m, n));
  int info = 0;
  WithWork(work, [&](S* memory, const int* size) {
    THALWEG_ROUTINE_(S, geqrf_)(&m, &n, a, &m, tau.data(), memory, size, &info);
  });
}

template <typename S>
void QOf(int m, int columns, S* q, std::vector<S>& tau, std::vector<S>& work) {
  const int reflections = static_cast<int>(std::min<size_t>(tau.size(), columns));
  int info = 0;
  WithWork(work, [&](S* memory, const int* size) {
    THALWEG_ROUTINES_(S, orgqr_, ungqr_)(&m, &columns, &reflections, q, &m, tau.data(), memory, size, &info);
  });
}

template <typename S>
bool Svd(SvdVectors vectors, int m, int n, S* a, Real<S>* s, S* u, S* v, std::vector<S>& work) {
  if constexpr (!kComplex<S>) {
    if (m == n && n <= kSmallMatrix && SmallSvd(vectors != SvdVectors::kNone, n, a, s, u, v)) return true;
  }
  const char job = static_cast<char>(vectors);
  const int k = std::min(m, n), stride_v = vectors == SvdVectors::kAll ? n : k;
  std::vector<int> integers(8 * static_cast<size_t>(k));
  int info = 0;
  if constexpr (kComplex<S>) {
    const size_t least = k, most = std::max(m, n);
    std::vector<Real<S>> reals(
        vectors == SvdVectors::kNone ? 7 * least : least * std::max(5 * least + 7, 2 * most + 2 * least + 1));
    WithWork(work, [&](S* memory, const int* size) {
      Choose<S>(0, 0, cgesdd_, zgesdd_)(&job, &m, &n, a, &m, s, u, &m, v, &stride_v, memory, size, reals.data(),
                                        integers.data(), &info, 1);
    });
  } else {
    WithWork(work, [&](S* memory, const int* size) {
      Choose<S>(sgesdd_, dgesdd_, 0, 0)(&job, &m, &n, a, &m, s, u, &m, v, &stride_v, memory, size, integers.data(),
                                        &info, 1);
    });
  }
  return info == 0;
}

template <typename S>
bool HermitianEigen(bool vectors, int n, S* a, Real<S>* values, std::vector<S>& work) {
  if constexpr (!kComplex<S>) {
    if (vectors && n <= kSmallMatrix && SmallSymmetricEigen(n, a, values)) return true;
  }
  const char* const job = vectors ? "V" : "N";
  const int count = vectors ? 3 + 5 * n : 1;
  std::vector<int> integers(count);
  int info = 0;
  if constexpr (kComplex<S>) {
    const size_t wanted = vectors ? 1 + 5 * static_cast<size_t>(n) + 2 * static_cast<size_t>(n) * n : n;
    std::vector<Real<S>> reals(wanted);
    const int reals_size = static_cast<int>(std::min<size_t>(wanted, std::numeric_limits<int>::max()));
    WithWork(work, [&](S* memory, const int* size) {
      // Asked for the size of one, it answers for all three.
      const int ask = -1, *const more = *size == -1 ? &ask : nullptr;
      int integer_answer = 0;
      Real<S> real_answer = 0;
      Choose<S>(0, 0, cheevd_, zheevd_)(
          job, "U", &n, a, &n, values, memory, size, more != nullptr ? &real_answer : reals.data(),
          more != nullptr ? more : &reals_size, more != nullptr ? &integer_answer : integers.data(),
          more != nullptr ? more : &count, &info, 1, 1);
    });
  } else {
    WithWork(work, [&](S* memory, const int* size) {
      Choose<S>(ssyevd_, dsyevd_, 0, 0)(job, "U", &n, a, &n, values, memory, size, integers.data(), &count, &info, 1,
                                        1);
    });
  }
  return info == 0;
}

template <typename S>
bool Eigen(int n, S* a, std::complex<Real<S>>* values, std::complex<Real<S>>* vectors, std::vector<S>& work) {
  using Complex = std::complex<Real<S>>;
  const char* const job = vectors != nullptr ? "V" : "N";
  const int one = 1;
  int info = 0;
  if constexpr (kComplex<S>) {
    std::vector<Real<S>> reals(2 * static_cast<size_t>(n));
    WithWork(work, [&](S* memory, const int* size) {
      Choose<S>(0, 0, cgeev_, zgeev_)("N", job, &n, a, &n, values, nullptr, &one, vectors, &n, memory, size,
                                      reals.data(), &info, 1, 1);
    });
  } else {
    if (n <= kSmallMatrix && SmallEigen(n, a, values, vectors)) return true;
    const size_t size = n;
    std::vector<S> parts(2 * size), real_vectors(vectors != nullptr ? size * size : 1);
    WithWork(work, [&](S* memory, const int* memory_size) {
      Choose<S>(sgeev_, dgeev_, 0, 0)("N", job, &n, a, &n, parts.data(), parts.data() + n, nullptr, &one,
                                      real_vectors.data(), &n, memory, memory_size, &info, 1, 1);
    });
    for (size_t j = 0; j < size; ++j) values[j] = Complex(parts[j], parts[size + j]);
    // The vectors of a conjugate pair are x + iy and x - iy, with x and y in its two columns.
    for (size_t j = 0; vectors != nullptr && j < size; ++j) {
      const bool pair = parts[size + j] != 0 && j + 1 < size;
      const S *const x = real_vectors.data() + j * size, *const y = x + size;
      for (size_t i = 0; i < size; ++i) {
        vectors[j * size + i] = Complex(x[i], pair ? y[i] : 0);
        if (pair) vectors[(j + 1) * size + i] = Complex(x[i], -y[i]);
      }
      j += pair ? 1 : 0;
    }
  }
  return info == 0;
}

bool Schur(int n, ComplexDouble* a, ComplexDouble* u) {
  std::vector<ComplexDouble> values(n), work;
  std::vector<double> reals(n);
  int info = 0, sorted = 0;
  WithWork(work, [&](ComplexDouble* memory, const int* size) {
    zgees_("V", "N", nullptr, &n, a, &n, &sorted, values.data(), u, &n, memory, size, reals.data(), nullptr, &info, 1,
           1);
  });
  return info == 0;
}

bool RealSchur(int n, double* a, double* u) {
  if (n <= kSmallMatrix && SmallSchur(n, a, u)) return true;
  std::vector<double> values(2 * static_cast<size_t>(n)), work;
  int info = 0, sorted = 0;
  WithWork(work, [&](double* memory, const int* size) {
    dgees_("V", "N", nullptr, &n, a, &n, &sorted, values.data(), values.data() + n, u, &n, memory, size, nullptr, &info,
           1, 1);
  });
  return info == 0;
}

template <typename S>
void LeastSquares(int m, int n, int k, S* a, S* b, std::vector<S>& work) {
  const int rows = std::max(m, n);
  const Real<S> least = std::numeric_limits<Real<S>>::epsilon() * static_cast<Real<S>>(std::min(m, n));
  std::vector<int> pivots(n);
  int rank = 0, info = 0;
  if constexpr (kComplex<S>) {
    std::vector<Real<S>> reals(2 * static_cast<size_t>(n));
    WithWork(work, [&](S* memory, const int* size) {
      Choose<S>(0, 0, cgelsy_, zgelsy_)(&m, &n, &k, a, &m, b, &rows, pivots.data(), &least, &rank, memory, size,
                                        reals.data(), &info);
    });
  } else {
    WithWork(work, [&](S* memory, const int* size) {
      Choose<S>(sgelsy_, dgelsy_, 0, 0)(&m, &n, &k, a, &m, b, &rows, pivots.data(), &least, &rank, memory, size, &info);
    });
  }
}

#define THALWEG_LAPACK_(S)                                                                       \
  template bool CholeskyRows(int, S*);                                                           \
  template bool Lu(int, S*, int*);                                                               \
  template void SolveLuRows(int, int, const S*, const int*, S*);                                 \
  template void InvertLuRows(int, const S*, const int*, S*);                                     \
  template void SolveTriangleRight(Triangle, Form, bool, int, int, const S*, int, S*);           \
  template void SolveTriangleRows(Triangle, bool, int, int, const S*, S*);                       \
  template void Multiply(Form, Form, int, int, int, const S*, const S*, S*);                     \
  template void Gram(Form, int, int, const S*, S*);                                              \
  template void Qr(int, int, S*, std::vector<S>&, std::vector<S>&);                              \
  template void QOf(int, int, S*, std::vector<S>&, std::vector<S>&);                             \
  template bool Svd(SvdVectors, int, int, S*, Real<S>*, S*, S*, std::vector<S>&);                \
  template bool HermitianEigen(bool, int, S*, Real<S>*, std::vector<S>&);                        \
  template bool Eigen(int, S*, std::complex<Real<S>>*, std::complex<Real<S>>*, std::vector<S>&); \
  template void LeastSquares(int, int, int, S*, S*, std::vector<S>&);
THALWEG_LAPACK_(float)
THALWEG_LAPACK_(double)
THALWEG_LAPACK_(ComplexFloat)
THALWEG_LAPACK_(ComplexDouble)
#undef THALWEG_LAPACK_
#undef THALWEG_ROUTINE_
#undef THALWEG_ROUTINES_

}  // namespace thalweg::lapack
