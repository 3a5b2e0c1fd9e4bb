// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms of lines of complex numbers:
//
//   X[k] = sum_j x[j] exp(-2 pi i j k / n)
//
// Several lines are transformed at a time, one in each lane of vectors: all arithmetic
// is on whole vectors whatever the length.
//
//   const Plan<float> plan(n);
//   Plan<float>::Buffer x(n), work;
//   LoadLanes(lines, 2 * n, kLanes<float>, 2 * n, Elements(x));
//   plan.Run(x, work);
//   StoreLanes(Elements(x), kLanes<float>, 2 * n, lines, 2 * n);
//
// A line that is too long for the cache has a plan of its own in fft_line.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numbers>
#include <vector>

#include "thalweg/base/simd.h"
#include "thalweg/ops/support/pool_vector.h"

namespace thalweg::fft {

// Lines in a vector, which has 32 bytes: what processors with AVX2 compute at once.
template <typename R>
constexpr int64_t kLanes = 32 / sizeof(R);
// Larger prime factors are left to Bluestein's algorithm.
constexpr int kLargestFactor = 61;

// Element k of kLanes<R> lines.
template <typename R>
struct Lanes {
  typedef R Vector __attribute__((vector_size(32)));
  Vector re, im;
};

// Lines as real numbers: the real parts of element 0 of all lines, the imaginary parts, those of element 1, ...
template <typename R>
R* Elements(PoolVector<Lanes<R>>& buffer) {
  return reinterpret_cast<R*>(buffer.data());
}

// to[i][j] = from[j][i] for i and j below kLanes<R>.
template <typename R>
[[gnu::always_inline]] inline void TransposeBlock(const R* from, int64_t from_stride, R* to, int64_t to_stride) {
  constexpr int kSize = kLanes<R>;
  typename Lanes<R>::Vector a[kSize], b[kSize];
  for (int i = 0; i < kSize; ++i) std::memcpy(&a[i], from + i * from_stride, sizeof(a[i]));
  // Pairs of rows, then pairs of pairs, within the halves of vectors; then the halves.
  if constexpr (kSize == 8) {
    for (int i = 0; i < 8; i += 2) {
      b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
      b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4) {
      a[i] = __builtin_shufflevector(b[i], b[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      a[i + 1] = __builtin_shufflevector(b[i], b[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
      a[i + 2] = __builtin_shufflevector(b[i + 1], b[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
      a[i + 3] = __builtin_shufflevector(b[i + 1], b[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (int i = 0; i < 4; ++i) {
      b[i] = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
      b[i + 4] = __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
  } else {
    typename Lanes<R>::Vector pairs[4];
    for (int i = 0; i < 4; i += 2) {
      pairs[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 4, 2, 6);
      pairs[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 1, 5, 3, 7);
    }
    for (int i = 0; i < 2; ++i) {
      b[i] = __builtin_shufflevector(pairs[i], pairs[i + 2], 0, 1, 4, 5);
      b[i + 2] = __builtin_shufflevector(pairs[i], pairs[i + 2], 2, 3, 6, 7);
    }
  }
  for (int i = 0; i < kSize; ++i) std::memcpy(to + i * to_stride, &b[i], sizeof(b[i]));
}

// The real and imaginary parts of numbers that lie beside each other in memory, and back.
template <typename R>
[[gnu::always_inline]] inline void LoadNumbers(const std::complex<R>* from, Lanes<R>& to) {
  typename Lanes<R>::Vector low, high;
  std::memcpy(&low, from, sizeof(low));
  std::memcpy(&high, from + kLanes<R> / 2, sizeof(high));
  if constexpr (kLanes<R> == 8) {
    to.re = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14);
    to.im = __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15);
  } else {
    to.re = __builtin_shufflevector(low, high, 0, 2, 4, 6);
    to.im = __builtin_shufflevector(low, high, 1, 3, 5, 7);
  }
}
template <typename R>
[[gnu::always_inline]] inline void StoreNumbers(const Lanes<R>& from, std::complex<R>* to) {
  typename Lanes<R>::Vector low, high;
  if constexpr (kLanes<R> == 8) {
    low = __builtin_shufflevector(from.re, from.im, 0, 8, 1, 9, 2, 10, 3, 11);
    high = __builtin_shufflevector(from.re, from.im, 4, 12, 5, 13, 6, 14, 7, 15);
  } else {
    low = __builtin_shufflevector(from.re, from.im, 0, 4, 1, 5);
    high = __builtin_shufflevector(from.re, from.im, 2, 6, 3, 7);
  }
  R* const numbers = reinterpret_cast<R*>(to);
  std::memcpy(numbers, &low, sizeof(low));
  std::memcpy(numbers + kLanes<R>, &high, sizeof(high));
}

// to[k][lane] = lines[lane][k] for the first `count` lanes and `size` columns. A row of `to` has `to_stride` numbers.
template <typename R>
THALWEG_SIMD void LoadLanes(const R* lines, int64_t stride, int64_t count, int64_t size, R* to,
                            int64_t to_stride = kLanes<R>) {
  int64_t k = 0;
  for (; count == kLanes<R> && k + kLanes<R> <= size; k += kLanes<R>) {
    TransposeBlock(lines + k, stride, to + k * to_stride, to_stride);
  }
  for (; k < size; ++k) {
    for (int64_t lane = 0; lane < count; ++lane) to[k * to_stride + lane] = lines[lane * stride + k];
  }
}

// lines[lane][k] = from[k][lane].
template <typename R>
THALWEG_SIMD void StoreLanes(const R* from, int64_t count, int64_t size, R* lines, int64_t stride,
                             int64_t from_stride = kLanes<R>) {
  int64_t k = 0;
  for (; count == kLanes<R> && k + kLanes<R> <= size; k += kLanes<R>) {
    TransposeBlock(from + k * from_stride, from_stride, lines + k, stride);
  }
  for (; k < size; ++k) {
    for (int64_t lane = 0; lane < count; ++lane) lines[lane * stride + k] = from[k * from_stride + lane];
  }
}

// The same for lines that lie beside each other, with elements `stride` apart.
template <typename R>
THALWEG_SIMD void LoadAdjacent(const std::complex<R>* lines, int64_t stride, int64_t n, Lanes<R>* to) {
  for (int64_t k = 0; k < n; ++k) LoadNumbers(lines + k * stride, to[k]);
}
template <typename R>
THALWEG_SIMD void StoreAdjacent(const Lanes<R>* from, int64_t stride, int64_t n, std::complex<R>* lines) {
  for (int64_t k = 0; k < n; ++k) StoreNumbers(from[k], lines + k * stride);
}

// y = x w.
template <typename R>
[[gnu::always_inline]] inline void Multiply(const Lanes<R>& x, const std::complex<R>& w, Lanes<R>& y) {
  const auto re = x.re * w.real() - x.im * w.imag();
  y.im = x.re * w.imag() + x.im * w.real();
  y.re = re;
}
template <typename R>
[[gnu::always_inline]] inline void Add(const Lanes<R>& a, const Lanes<R>& b, Lanes<R>& y) {
  y.re = a.re + b.re;
  y.im = a.im + b.im;
}
template <typename R>
[[gnu::always_inline]] inline void Subtract(const Lanes<R>& a, const Lanes<R>& b, Lanes<R>& y) {
  y.re = a.re - b.re;
  y.im = a.im - b.im;
}

// One pass of Stockham's algorithm, which writes from one buffer to another and needs no
// bit-reversal:
//
//   y[k + s (p j + r)] = w^(s j r) sum_q x[k + s (j + m q)] w^(q r n / p)
//
// These are the transforms over q, of length p, multiplied by twiddle factors so that the
// transforms over j remain. n is p m s, and `roots` are the n-th roots of unity. `factor` is p, or
// 0 if the compiler does not know it.
template <int factor, typename R>
THALWEG_SIMD void PassOf(int p, int64_t m, int64_t s, const std::complex<R>* roots, const Lanes<R>* x, Lanes<R>* y) {
  if constexpr (factor != 0) p = factor;
  const int64_t n = p * m * s;
  for (int64_t j = 0; j < m; ++j) {
    const Lanes<R>* const in = x + s * j;
    Lanes<R>* const out = y + s * p * j;
    if constexpr (factor == 2) {
      const std::complex<R> w = roots[s * j];
      for (int64_t k = 0; k < s; ++k) {
        Lanes<R> difference;
        Subtract(in[k], in[k + s * m], difference);
        Add(in[k], in[k + s * m], out[k]);
        Multiply(difference, w, out[k + s]);
      }
    } else if constexpr (factor == 4) {
      const std::complex<R> w1 = roots[s * j], w2 = roots[2 * s * j], w3 = roots[3 * s * j];
      for (int64_t k = 0; k < s; ++k) {
        const Lanes<R> a = in[k], b = in[k + s * m], c = in[k + 2 * s * m], d = in[k + 3 * s * m];
        Lanes<R> even, odd, minus, turn, sum;
        Add(a, c, even);
        Add(b, d, odd);
        Subtract(a, c, minus);
        Subtract(b, d, turn);
        const Lanes<R> turned{turn.im, -turn.re};
        Add(even, odd, out[k]);
        Add(minus, turned, sum);
        Multiply(sum, w1, out[k + s]);
        Subtract(even, odd, sum);
        Multiply(sum, w2, out[k + 2 * s]);
        Subtract(minus, turned, sum);
        Multiply(sum, w3, out[k + 3 * s]);
      }
    } else {
      // Elements q and p - q together: w^qr and w^(p-q)r are conjugates, so that half of the products are enough.
      constexpr int kMostPairs = (factor != 0 ? factor : kLargestFactor) / 2;
      for (int64_t k = 0; k < s; ++k) {
        Lanes<R> sums[kMostPairs + 1], differences[kMostPairs + 1], total = in[k];
        const int half = (p - 1) / 2;
        for (int q = 1; q <= half; ++q) {
          Add(in[k + s * m * q], in[k + s * m * (p - q)], sums[q]);
          Subtract(in[k + s * m * q], in[k + s * m * (p - q)], differences[q]);
          Add(total, sums[q], total);
        }
        out[k] = total;
        for (int r = 1; r <= half; ++r) {
          Lanes<R> even = in[k], odd{};
          int turns = 0;  // q r modulo p
          for (int q = 1; q <= half; ++q) {
            turns = turns + r >= p ? turns + r - p : turns + r;
            const std::complex<R> w = roots[n / p * turns];
            even.re += sums[q].re * w.real();
            even.im += sums[q].im * w.real();
            odd.re -= differences[q].im * w.imag();
            odd.im += differences[q].re * w.imag();
          }
          Lanes<R> sum;
          Add(even, odd, sum);
          Multiply(sum, roots[s * j * r], out[k + s * r]);
          Subtract(even, odd, sum);
          Multiply(sum, roots[s * j * (p - r)], out[k + s * (p - r)]);
        }
      }
    }
  }
}

template <typename R>
void Pass(int p, int64_t m, int64_t s, const std::complex<R>* roots, const Lanes<R>* x, Lanes<R>* y) {
  switch (p) {
    case 2:
      return PassOf<2>(p, m, s, roots, x, y);
    case 3:
      return PassOf<3>(p, m, s, roots, x, y);
    case 4:
      return PassOf<4>(p, m, s, roots, x, y);
    case 5:
      return PassOf<5>(p, m, s, roots, x, y);
    default:
      return PassOf<0>(p, m, s, roots, x, y);
  }
}

// y[k] = x[k] w[k step], conjugated if asked for.
template <typename R>
THALWEG_SIMD void MultiplyAll(const Lanes<R>* x, const std::complex<R>* w, int64_t step, int64_t n, bool conjugate,
                              Lanes<R>* y) {
  for (int64_t k = 0; k < n; ++k) {
    Multiply(x[k], w[k * step], y[k]);
    if (conjugate) y[k].im = -y[k].im;
  }
}

// Transforms of one length. Constant after construction.
//
// - Lengths of small prime factors are done by passes of Stockham's algorithm.
// - Lines that do not fit into the cache are taken for a matrix of a x b elements: transforms of its columns, which
//   fit, are multiplied by twiddle factors, and transforms of its rows give the result (Bailey's four-step algorithm).
//   Each element then goes through memory twice instead of once per pass.
// - A prime length n becomes a cyclic convolution of length n - 1, if that has small factors (Rader): with a generator
//   g of the numbers below n, X[1/g^q] - x[0] is the convolution of x[g^q] and exp(-2 pi i / (n g^q)), exponents of the
//   root modulo n.
// - Other lengths become a convolution with exp(-pi i k^2 / n) of a length with small factors (Bluestein).
template <typename R>
class Plan {
 public:
  using Number = std::complex<R>;
  using Buffer = PoolVector<Lanes<R>>;

  explicit Plan(int64_t n) : n_(n) {
    factors_ = SmallFactors(n);
    if (factors_.empty() && n > 1) {
      const int64_t wide = WideLength();
      // One of Bluestein's convolutions multiplies by the chirp before and after.
      if (IsPrime(n) && !SmallFactors(n - 1).empty() && Cost(n - 1) < Cost(wide) + 2 * kCostOfProduct * n) {
        MakeCyclic();
      } else {
        MakeChirp(wide);
      }
      return;
    }
    roots_.resize(n);
    for (int64_t k = 0; k < n; ++k) roots_[k] = Number(Root(k, n));
    if (n * static_cast<int64_t>(sizeof(Lanes<R>)) > kCacheBytes) Split();
  }

  // Transforms the n elements of x, in place. Buffers grow as needed.
  void Run(Buffer& x, Buffer& work) const {
    if (!cycle_.empty()) return RunCyclic(x, work);
    if (convolution_ != nullptr) return RunChirp(x, work);
    if (static_cast<int64_t>(work.size()) < n_) work.resize(n_);
    if (columns_ != nullptr) return RunSplit(x, work);
    int64_t length = n_, stride = 1;
    for (const int p : factors_) {
      Pass(p, length / p, stride, roots_.data(), x.data(), work.data());
      x.swap(work);
      length /= p;
      stride *= p;
    }
  }

  // Transforms the n elements of x, which stay as they are. Returns one of the two buffers of n elements, which has the
  // result. REQUIRES: n has small factors and more than one.
  Lanes<R>* RunPasses(const Lanes<R>* x, Lanes<R>* work, Lanes<R>* more_work) const {
    int64_t length = n_, stride = 1;
    for (const int p : factors_) {
      Pass(p, length / p, stride, roots_.data(), x, work);
      x = work;
      std::swap(work, more_work);
      length /= p;
      stride *= p;
    }
    return more_work;
  }

  // exp(-2 pi i k / n).
  static std::complex<double> Root(int64_t k, int64_t n) {
    return std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n));
  }

  // Empty if n has a large prime factor.
  static std::vector<int> SmallFactors(int64_t n) {
    std::vector<int> factors;
    const auto divide = [&](int p) {
      for (; n % p == 0; n /= p) factors.push_back(p);
    };
    divide(4);
    for (int p = 2; p <= kLargestFactor; ++p) divide(p);
    return n == 1 ? factors : std::vector<int>();
  }

 private:
  static constexpr int64_t kCacheBytes = 256 * 1024;
  static constexpr int64_t kCostOfProduct = 4;

  // Estimated operations of a transform whose length has small factors.
  static int64_t Cost(int64_t n) {
    int64_t cost = 0;
    for (const int p : SmallFactors(n)) cost += n * (p == 4 ? 8 : p + 6);
    return cost;
  }

  static bool IsPrime(int64_t n) {
    for (int64_t p = 2; p * p <= n; ++p) {
      if (n % p == 0) return false;
    }
    return n > 1;
  }

  // n is a * b with a close to b.
  void Split() {
    int64_t a = 1;
    for (int i = static_cast<int>(factors_.size()) - 1; i >= 0; --i) {
      if (a * a * factors_[i] <= n_) a *= factors_[i];
    }
    if (a == 1) return;
    columns_ = std::make_unique<Plan>(a);
    rows_ = std::make_unique<Plan>(n_ / a);
  }

  void RunSplit(Buffer& x, Buffer& work) const {
    const int64_t a = columns_->n_, b = rows_->n_;
    Buffer line(std::max(a, b)), small(std::max(a, b));
    for (int64_t j = 0; j < b; ++j) {
      for (int64_t i = 0; i < a; ++i) line[i] = x[i * b + j];
      columns_->Run(line, small);
      MultiplyAll(line.data(), roots_.data(), j, a, false, line.data());
      for (int64_t i = 0; i < a; ++i) work[i * b + j] = line[i];
    }
    for (int64_t i = 0; i < a; ++i) {
      std::copy_n(work.begin() + i * b, b, line.begin());
      rows_->Run(line, small);
      for (int64_t j = 0; j < b; ++j) x[i + a * j] = line[j];
    }
  }

  // Sets filter_ to the transform of itself, divided by its length, and convolution_ to the plan for that.
  void TransformFilter() {
    const int64_t m = static_cast<int64_t>(filter_.size());
    convolution_ = std::make_unique<Plan>(m);
    Buffer x(m), work;
    for (int64_t k = 0; k < m; ++k) {
      x[k] = Lanes<R>{};
      x[k].re[0] = filter_[k].real();
      x[k].im[0] = filter_[k].imag();
    }
    convolution_->Run(x, work);
    const R scale = R(1) / static_cast<R>(m);
    for (int64_t k = 0; k < m; ++k) filter_[k] = Number(x[k].re[0], x[k].im[0]) * scale;
  }

  void MakeCyclic() {
    const auto times = [&](int64_t a, int64_t b) {
      return static_cast<int64_t>(static_cast<unsigned __int128>(a) * b % n_);
    };
    const auto power = [&](int64_t base, int64_t exponent) {
      int64_t result = 1;
      for (; exponent > 0; exponent /= 2, base = times(base, base)) {
        if (exponent % 2 == 1) result = times(result, base);
      }
      return result;
    };
    // The powers of g are all numbers from 1 to n - 1, unless one of these is 1.
    const std::vector<int> factors = SmallFactors(n_ - 1);
    const auto generates = [&](int64_t g) {
      return std::none_of(factors.begin(), factors.end(),
                          [&](int p) { return power(g, (n_ - 1) / (p == 4 ? 2 : p)) == 1; });
    };
    int64_t g = 2;
    while (!generates(g)) ++g;
    cycle_.resize(n_ - 1);
    filter_.resize(n_ - 1);
    int64_t next = 1;
    for (int64_t& element : cycle_) {
      element = next;
      next = times(next, g);
    }
    for (int64_t q = 0; q < n_ - 1; ++q) filter_[q] = Number(Root(cycle_[(n_ - 1 - q) % (n_ - 1)], n_));
    TransformFilter();
  }

  void RunCyclic(Buffer& x, Buffer& work) const {
    const int64_t m = n_ - 1;
    Buffer line(m);
    for (int64_t q = 0; q < m; ++q) line[q] = x[cycle_[q]];
    convolution_->Run(line, work);
    const Lanes<R> first = x[0];
    Add(first, line[0], x[0]);
    MultiplyAll(line.data(), filter_.data(), 1, m, true, line.data());
    // A constant is added to all elements by adding it to the first of the transform, which is conjugated here.
    line[0].re += first.re;
    line[0].im -= first.im;
    convolution_->Run(line, work);
    for (int64_t q = 0; q < m; ++q) {
      Lanes<R>& to = x[cycle_[(m - q) % m]];
      to.re = line[q].re;
      to.im = -line[q].im;
    }
  }

  void MakeChirp(int64_t m) {
    chirp_.resize(n_);
    conjugate_chirp_.resize(n_);
    filter_.assign(m, 0);
    for (int64_t k = 0; k < n_; ++k) {
      // k^2 modulo 2n, exactly: the angle must stay small.
      const int64_t square = static_cast<int64_t>(static_cast<unsigned __int128>(k) * k % (2 * n_));
      const std::complex<double> chirp = Root(square, 2 * n_);
      chirp_[k] = Number(chirp);
      conjugate_chirp_[k] = Number(std::conj(chirp));
      filter_[k] = filter_[(m - k) % m] = Number(std::conj(chirp));
    }
    TransformFilter();
  }

  // The cheapest length from 2n - 1 on that is a power of two, or 3, 5, 9 or 15 times one.
  int64_t WideLength() const {
    int64_t best = 0;
    for (const int64_t odd : {1, 3, 5, 9, 15}) {
      int64_t m = odd;
      while (m < 2 * n_ - 1) m *= 2;
      if (best == 0 || Cost(m) < Cost(best)) best = m;
    }
    return best;
  }

  void RunChirp(Buffer& x, Buffer& work) const {
    const int64_t m = convolution_->n_;
    Buffer wide(m);
    MultiplyAll(x.data(), chirp_.data(), 1, n_, false, wide.data());
    std::fill(wide.begin() + n_, wide.end(), Lanes<R>{});
    convolution_->Run(wide, work);
    MultiplyAll(wide.data(), filter_.data(), 1, m, true, wide.data());
    convolution_->Run(wide, work);
    MultiplyAll(wide.data(), conjugate_chirp_.data(), 1, n_, true, x.data());
  }

  const int64_t n_;
  std::vector<int> factors_;
  std::vector<Number> roots_;
  std::unique_ptr<Plan> columns_, rows_;  // if the line is taken for a matrix
  std::unique_ptr<Plan> convolution_;     // for Rader's and Bluestein's algorithms
  std::vector<Number> filter_;            // the transform of the other factor of the convolution
  std::vector<int64_t> cycle_;            // Rader: powers of the generator
  std::vector<Number> chirp_, conjugate_chirp_;
};

}  // namespace thalweg::fft
