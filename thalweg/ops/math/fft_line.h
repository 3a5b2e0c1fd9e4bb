// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms of one long line of complex or real numbers. The line is taken for a
// matrix of a x b elements (Bailey's four-step algorithm), whose columns and rows are transformed
// several at a time by fft_plan.h. A line of 32,768 floats then stays in the second-level cache,
// where several such lines beside each other would not fit.
//
//   const LinePlan<float> plan(n);  // REQUIRES: LinePlan<float>::Takes(n)
//   LinePlan<float>::Work work;
//   plan.Run(x, y, false, work);
#pragma once

#include <algorithm>
#include <complex>
#include <cstdint>
#include <utility>
#include <vector>

#include "thalweg/base/simd.h"
#include "thalweg/ops/math/fft_plan.h"
#include "thalweg/ops/support/pool_vector.h"

namespace thalweg::fft {

// Exchanges real and imaginary parts, which turns a transform into its inverse, and multiplies them.
template <typename R>
THALWEG_SIMD void ExchangeParts(Lanes<R>* x, int64_t n, R scale) {
  for (int64_t k = 0; k < n; ++k) x[k] = {x[k].im * scale, x[k].re * scale};
}

// to[j][i] = from[i][j] w[i][j] for `rows` rows i, a multiple of the lanes. Rows of `to` that belong to one vector of
// i are adjacent; the next are `stride` behind them.
template <typename R>
THALWEG_SIMD void TurnAndTranspose(const Lanes<R>* from, const Lanes<R>* w, int64_t rows, int64_t stride,
                                   Lanes<R>* to) {
  constexpr int64_t kCount = kLanes<R>;
  for (int64_t i = 0; i < rows; i += kCount, to += stride) {
    Lanes<R> turned[kCount];
    for (int64_t r = 0; r < kCount; ++r) {
      const Lanes<R>&x = from[i + r], &root = w[i + r];
      turned[r] = {x.re * root.re - x.im * root.im, x.re * root.im + x.im * root.re};
    }
    R *const in = reinterpret_cast<R*>(turned), *const out = reinterpret_cast<R*>(to);
    TransposeBlock(in, 2 * kCount, out, 2 * kCount);
    TransposeBlock(in + kCount, 2 * kCount, out + kCount, 2 * kCount);
  }
}

template <typename R>
[[gnu::always_inline]] inline Lanes<R> Reversed(const Lanes<R>& x) {
  if constexpr (kLanes<R> == 8) {
    return {__builtin_shufflevector(x.re, x.re, 7, 6, 5, 4, 3, 2, 1, 0),
            __builtin_shufflevector(x.im, x.im, 7, 6, 5, 4, 3, 2, 1, 0)};
  } else {
    return {__builtin_shufflevector(x.re, x.re, 3, 2, 1, 0), __builtin_shufflevector(x.im, x.im, 3, 2, 1, 0)};
  }
}

// For each pair of elements x = from[k] and conj y = from[h - k], 0 < k <= h / 2, with even = (x + y) / 2 and
// odd = (x - y) w[k] / 2: to[k] = even + odd, to[h - k] = conj(even - odd). `to` may be `from`.
template <typename R>
THALWEG_SIMD void CombinePairs(const std::complex<R>* from, const std::complex<R>* w, int64_t h, std::complex<R>* to) {
  constexpr int64_t kCount = kLanes<R>;
  int64_t k = 1;
  for (; k + kCount <= h - k - kCount + 1; k += kCount) {
    Lanes<R> x, y, root;
    LoadNumbers(from + k, x);
    LoadNumbers(from + h - k - kCount + 1, y);
    LoadNumbers(w + k, root);
    y = Reversed(y);
    const R half = R(1) / 2;
    const Lanes<R> even{(x.re + y.re) * half, (x.im - y.im) * half}, rest{(x.re - y.re) * half, (x.im + y.im) * half};
    const Lanes<R> odd{rest.re * root.re - rest.im * root.im, rest.re * root.im + rest.im * root.re};
    StoreNumbers(Lanes<R>{even.re + odd.re, even.im + odd.im}, to + k);
    StoreNumbers(Reversed(Lanes<R>{even.re - odd.re, odd.im - even.im}), to + h - k - kCount + 1);
  }
  for (; k <= h - k; ++k) {
    const std::complex<R> x = from[k], y = std::conj(from[h - k]);
    const std::complex<R> even = (x + y) / R(2), odd = (x - y) / R(2) * w[k];
    to[h - k] = std::conj(even - odd);
    to[k] = even + odd;
  }
}

// Transforms of one length n. Constant after construction.
template <typename R>
class LinePlan {
 public:
  using Number = std::complex<R>;
  using Buffer = PoolVector<Lanes<R>>;

  struct Work {
    Buffer matrix, line, small, more;
    PoolVector<Number> numbers;
  };

  // Whether n is a product of two numbers with small factors, both multiples of the lanes.
  static bool Takes(int64_t n) { return Columns(n) != 0; }

  explicit LinePlan(int64_t n) : n_(n), a_(Columns(n)), b_(n / a_), columns_(a_), rows_(b_), roots_(n / kCount) {
    for (int64_t j = 0; j < b_; ++j) {
      for (int64_t i = 0; i < a_; ++i) {
        const std::complex<double> root = Plan<R>::Root(i * j, n);
        Lanes<R>& to = roots_[j / kCount * a_ + i];
        to.re[j % kCount] = static_cast<R>(root.real());
        to.im[j % kCount] = static_cast<R>(root.imag());
      }
    }
  }

  // y = the transform of x, or its inverse. y may be x.
  void Run(const Number* x, Number* y, bool inverse, Work& work) const {
    work.matrix.resize(n_ / kCount);
    for (Buffer* const buffer : {&work.line, &work.small, &work.more}) buffer->resize(std::max(a_, b_));
    Lanes<R>*const line = work.line.data(), *const small = work.small.data(), *const more = work.more.data();
    for (int64_t j = 0; j < b_; j += kCount) {
      LoadAdjacent(x + j, b_, a_, line);
      if (inverse) ExchangeParts(line, a_, R(1));
      TurnAndTranspose(columns_.RunPasses(line, small, more), &roots_[j / kCount * a_], a_, b_, &work.matrix[j]);
    }
    for (int64_t i = 0; i < a_; i += kCount) {
      Lanes<R>* const row = rows_.RunPasses(&work.matrix[i / kCount * b_], small, more);
      if (inverse) ExchangeParts(row, b_, R(1) / static_cast<R>(n_));
      StoreAdjacent(row, a_, b_, y + i);
    }
  }

 private:
  static constexpr int64_t kCount = kLanes<R>;

  // The largest a up to the root of n with n = a b as Takes() wants it, or 0.
  static int64_t Columns(int64_t n) {
    if (n % (kCount * kCount) != 0) return 0;
    const std::vector<int> factors = Plan<R>::SmallFactors(n / (kCount * kCount));
    if (factors.empty() && n != kCount * kCount) return 0;
    int64_t a = kCount;
    for (auto p = factors.rbegin(); p != factors.rend(); ++p) {
      if (a * a * *p * *p <= n) a *= *p;
    }
    return a;
  }

  const int64_t n_, a_, b_;
  const Plan<R> columns_, rows_;
  Buffer roots_;  // exp(-2 pi i i j / n), in the order of the columns' vectors
};

// The same for lines of n real numbers, n even, by transforms of n / 2 complex numbers z[k] = x[2k] + i x[2k+1]. With
// h = n / 2, the transforms of the even elements and of the odd elements of x are (Z[k] + conj Z[h-k]) / 2 and
// (Z[k] - conj Z[h-k]) / 2i.
template <typename R>
class RealLinePlan {
 public:
  using Number = std::complex<R>;
  using Work = typename LinePlan<R>::Work;

  static bool Takes(int64_t n) { return n % 2 == 0 && LinePlan<R>::Takes(n / 2); }

  explicit RealLinePlan(int64_t n) : half_(n / 2), plan_(n / 2), forward_(n / 4 + 1), backward_(n / 4 + 1) {
    for (int64_t k = 0; k <= n / 4; ++k) {
      const std::complex<double> root = Plan<R>::Root(k, n), i(0, 1);
      forward_[k] = Number(-i * root);
      backward_[k] = Number(i * std::conj(root));
    }
  }

  // y = the first n / 2 + 1 elements of the transform of x.
  void Run(const R* x, Number* y, Work& work) const {
    plan_.Run(reinterpret_cast<const Number*>(x), y, false, work);
    const Number first = y[0];
    CombinePairs(y, forward_.data(), half_, y);
    y[0] = first.real() + first.imag();
    y[half_] = first.real() - first.imag();
  }

  // The inverse. Imaginary parts of the first and last element are not read.
  void RunInverse(const Number* x, R* y, Work& work) const {
    work.numbers.resize(half_);
    Number* const z = work.numbers.data();
    CombinePairs(x, backward_.data(), half_, z);
    z[0] = Number(x[0].real() + x[half_].real(), x[0].real() - x[half_].real()) / R(2);
    plan_.Run(z, reinterpret_cast<Number*>(y), true, work);
  }

 private:
  const int64_t half_;
  const LinePlan<R> plan_;
  std::vector<Number> forward_, backward_;
};

}  // namespace thalweg::fft
