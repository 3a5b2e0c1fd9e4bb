// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms over the last one, two or three dimensions:
//
//   FFT(x)[k] = sum_j x[j] exp(-2 pi i j k / n),  IFFT(FFT(x)) = x
//
// and RFFT of real numbers, which gives only the first n/2+1 of the last
// dimension: the others are their conjugates. RFFT and IRFFT take the first
// `fft_length` elements of each dimension.
//
// Lines are transformed eight at a time, one in each lane of vectors: all
// arithmetic is on vectors whatever the length. A real line is half a complex one,
// so that two of them share a lane.
#include <cmath>
#include <complex>
#include <memory>
#include <numbers>
#include <vector>

#include "thalweg/base/simd.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/pool_vector.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

constexpr int64_t kLanes = 8;

template <typename R>
struct Lanes {
  typedef R Vector __attribute__((vector_size(kLanes * sizeof(R))));
  Vector re, im;
};

// exp(-2 pi i k / n), for every k below n.
template <typename R>
std::vector<std::complex<R>> Roots(int64_t n) {
  std::vector<std::complex<R>> roots(n);
  for (int64_t k = 0; k < n; ++k) {
    roots[k] =
        std::complex<R>(std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n)));
  }
  return roots;
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
// transforms over j remain. n is p m s, and `roots` are the n-th roots of unity.
template <typename R>
THALWEG_SIMD void Pass(int p, int64_t m, int64_t s, const std::complex<R>* roots, const Lanes<R>* x, Lanes<R>* y) {
  const int64_t n = p * m * s;
  for (int64_t j = 0; j < m; ++j) {
    const Lanes<R>* const in = x + s * j;
    Lanes<R>* const out = y + s * p * j;
    if (p == 2) {
      const std::complex<R> w = roots[s * j];
      for (int64_t k = 0; k < s; ++k) {
        Lanes<R> difference;
        Subtract(in[k], in[k + s * m], difference);
        Add(in[k], in[k + s * m], out[k]);
        Multiply(difference, w, out[k + s]);
      }
    } else if (p == 4) {
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
      for (int64_t k = 0; k < s; ++k) {
        for (int64_t r = 0; r < p; ++r) {
          Lanes<R> sum = in[k];
          for (int64_t q = 1; q < p; ++q) {
            Lanes<R> term;
            Multiply(in[k + s * m * q], roots[n / p * (q * r % p)], term);
            Add(sum, term, sum);
          }
          Multiply(sum, roots[s * j * r], out[k + s * r]);
        }
      }
    }
  }
}

// y = x w, element by element; conjugated if asked for.
template <typename R>
THALWEG_SIMD void MultiplyAll(const Lanes<R>* x, const std::complex<R>* w, int64_t n, bool conjugate, Lanes<R>* y) {
  for (int64_t k = 0; k < n; ++k) {
    Multiply(x[k], w[k], y[k]);
    if (conjugate) y[k].im = -y[k].im;
  }
}

// Transforms of one length. Lengths of small prime factors by passes; others as a
// convolution with exp(-pi i k^2 / n) of a length that is a power of two
// (Bluestein). Constant after construction.
template <typename R>
class Plan {
 public:
  using Number = std::complex<R>;
  using Buffer = PoolVector<Lanes<R>>;

  explicit Plan(int64_t n) : n_(n) {
    int64_t rest = n;
    const auto divide = [&](int p) {
      for (; rest % p == 0; rest /= p) factors_.push_back(p);
    };
    divide(4);
    for (int p = 2; p <= kLargestFactor; ++p) divide(p);
    if (rest == 1) {
      roots_ = Roots<R>(n);
      return;
    }
    int64_t m = 1;
    while (m < 2 * n - 1) m *= 2;
    wide_ = std::make_unique<Plan>(m);
    chirp_.resize(n);
    filter_.assign(m, 0);
    for (int64_t k = 0; k < n; ++k) {
      // k^2 modulo 2n, exactly: the angle must stay small.
      const int64_t square = static_cast<int64_t>(static_cast<unsigned __int128>(k) * k % (2 * n));
      const std::complex<double> chirp =
          std::polar(1.0, -std::numbers::pi * static_cast<double>(square) / static_cast<double>(n));
      chirp_[k] = Number(chirp);
      filter_[k] = filter_[(m - k) % m] = Number(std::conj(chirp));
    }
    Buffer x(m), work;
    for (int64_t k = 0; k < m; ++k) {
      x[k] = Lanes<R>{};
      x[k].re[0] = filter_[k].real();
      x[k].im[0] = filter_[k].imag();
    }
    wide_->Run(x, work);
    const R scale = R(1) / static_cast<R>(m);
    for (int64_t k = 0; k < m; ++k) filter_[k] = Number(x[k].re[0], x[k].im[0]) * scale;
  }

  // Transforms the n lines of x, in place. Buffers grow as needed.
  void Run(Buffer& x, Buffer& work) const {
    if (wide_ != nullptr) return RunChirp(x, work);
    if (static_cast<int64_t>(work.size()) < n_) work.resize(n_);
    int64_t length = n_, stride = 1;
    for (const int p : factors_) {
      Pass(p, length / p, stride, roots_.data(), x.data(), work.data());
      x.swap(work);
      length /= p;
      stride *= p;
    }
  }

 private:
  static constexpr int kLargestFactor = 61;

  void RunChirp(Buffer& x, Buffer& work) const {
    const int64_t m = wide_->n_;
    Buffer wide(m);
    MultiplyAll(x.data(), chirp_.data(), n_, false, wide.data());
    std::fill(wide.begin() + n_, wide.end(), Lanes<R>{});
    wide_->Run(wide, work);
    MultiplyAll(wide.data(), filter_.data(), m, true, wide.data());
    wide_->Run(wide, work);
    for (int64_t k = 0; k < n_; ++k) wide[k].im = -wide[k].im;
    MultiplyAll(wide.data(), chirp_.data(), n_, false, x.data());
  }

  const int64_t n_;
  std::vector<int> factors_;
  std::vector<Number> roots_;
  std::unique_ptr<Plan> wide_;
  std::vector<Number> chirp_;
  std::vector<Number> filter_;
};

enum class Kind { kComplex, kFromReal, kToReal };

// The inverse is the transform with real and imaginary parts exchanged, before and
// after, and a factor.
template <typename R>
void Load(const std::complex<R>& x, bool inverse, int64_t lane, Lanes<R>& to) {
  to.re[lane] = inverse ? x.imag() : x.real();
  to.im[lane] = inverse ? x.real() : x.imag();
}
template <typename R>
std::complex<R> Stored(const Lanes<R>& from, bool inverse, int64_t lane, R scale) {
  return inverse ? std::complex<R>(from.im[lane] * scale, from.re[lane] * scale)
                 : std::complex<R>(from.re[lane], from.im[lane]);
}

// Runs body(first line, number of lines, buffer, work) for groups of lines.
template <typename R, typename F>
void ForEachGroup(KernelContext& c, int64_t lines, int64_t group, int64_t n, const F& body) {
  c.ParallelFor((lines + group - 1) / group, 20.0 * static_cast<double>(n), [&](int64_t begin, int64_t end) {
    typename Plan<R>::Buffer x(n, Lanes<R>{}), work(n);
    for (int64_t g = begin; g < end; ++g) {
      body(g * group, std::min(group, lines - g * group), x, work);
    }
  });
}

// Along dimension `axis` of x, in place.
template <typename R>
void TransformAxis(KernelContext& c, std::complex<R>* x, absl::Span<const int64_t> dims, int axis, bool inverse) {
  const int64_t n = dims[axis];
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= dims[i];
  for (size_t i = axis + 1; i < dims.size(); ++i) inner *= dims[i];
  const Plan<R> plan(n);
  const R scale = R(1) / static_cast<R>(n);
  using Buffer = typename Plan<R>::Buffer;
  ForEachGroup<R>(c, outer * inner, kLanes, n, [&](int64_t first, int64_t count, Buffer& buffer, Buffer& work) {
    std::complex<R>* starts[kLanes];
    for (int64_t l = 0; l < count; ++l) starts[l] = x + (first + l) / inner * n * inner + (first + l) % inner;
    for (int64_t k = 0; k < n; ++k) {
      for (int64_t l = 0; l < count; ++l) Load(starts[l][k * inner], inverse, l, buffer[k]);
    }
    plan.Run(buffer, work);
    for (int64_t k = 0; k < n; ++k) {
      for (int64_t l = 0; l < count; ++l) starts[l][k * inner] = Stored(buffer[k], inverse, l, scale);
    }
  });
}

// Real lines of n into the first n/2+1 of their transforms. Two lines a and b are
// the complex line z = a + ib, and A[k] = (Z[k] + conj Z[n-k]) / 2, B[k] =
// (Z[k] - conj Z[n-k]) / 2i.
template <typename R>
void TransformReal(KernelContext& c, const R* x, int64_t lines, int64_t n, std::complex<R>* y) {
  const Plan<R> plan(n);
  const int64_t half = n / 2 + 1;
  using Buffer = typename Plan<R>::Buffer;
  ForEachGroup<R>(c, lines, 2 * kLanes, n, [&](int64_t first, int64_t count, Buffer& buffer, Buffer& work) {
    const R* const from = x + first * n;
    for (int64_t k = 0; k < n; ++k) {
      for (int64_t l = 0; l < count; ++l) (l < kLanes ? buffer[k].re[l] : buffer[k].im[l - kLanes]) = from[l * n + k];
    }
    plan.Run(buffer, work);
    std::complex<R>* const to = y + first * half;
    for (int64_t k = 0; k < half; ++k) {
      const Lanes<R>&z = buffer[k], &back = buffer[k == 0 ? 0 : n - k];
      const Lanes<R> a{(z.re + back.re) / 2, (z.im - back.im) / 2}, b{(z.im + back.im) / 2, (back.re - z.re) / 2};
      for (int64_t l = 0; l < count; ++l) {
        to[l * half + k] =
            l < kLanes ? std::complex<R>(a.re[l], a.im[l]) : std::complex<R>(b.re[l - kLanes], b.im[l - kLanes]);
      }
    }
  });
}

// The inverse of that: from lines of n/2+1 numbers real lines of n. Imaginary
// parts of the first and of the middle are not read.
template <typename R>
void InverseToReal(KernelContext& c, const std::complex<R>* x, int64_t lines, int64_t n, R* y) {
  const Plan<R> plan(n);
  const int64_t half = n / 2 + 1;
  const R scale = R(1) / static_cast<R>(n);
  using Buffer = typename Plan<R>::Buffer;
  ForEachGroup<R>(c, lines, 2 * kLanes, n, [&](int64_t first, int64_t count, Buffer& buffer, Buffer& work) {
    const std::complex<R>* const from = x + first * half;
    for (int64_t k = 0; k < half; ++k) {
      const bool single = k == 0 || 2 * k == n;
      Lanes<R> a{}, b{};
      for (int64_t l = 0; l < count; ++l) {
        const std::complex<R> value = from[l * half + k];
        Lanes<R>& to = l < kLanes ? a : b;
        to.re[l % kLanes] = value.real();
        to.im[l % kLanes] = single ? 0 : value.imag();
      }
      // Z = A + iB, real and imaginary parts exchanged.
      buffer[k] = {a.im + b.re, a.re - b.im};
      if (!single) buffer[n - k] = {b.re - a.im, a.re + b.im};
    }
    plan.Run(buffer, work);
    R* const to = y + first * n;
    for (int64_t k = 0; k < n; ++k) {
      for (int64_t l = 0; l < count; ++l) {
        to[l * n + k] = (l < kLanes ? buffer[k].im[l] : buffer[k].re[l - kLanes]) * scale;
      }
    }
  });
}

// Copies the corner that two boxes of the same rank have in common.
template <typename T>
void CopyCorner(const T* x, absl::Span<const int64_t> x_dims, T* y, absl::Span<const int64_t> y_dims) {
  const int rank = static_cast<int>(x_dims.size());
  const int64_t columns = std::min(x_dims.back(), y_dims.back());
  int64_t rows = 1;
  for (int i = 0; i + 1 < rank; ++i) rows *= std::min(x_dims[i], y_dims[i]);
  for (int64_t r = 0; r < rows; ++r) {
    int64_t rest = r, from = 0, to = 0, x_step = x_dims.back(), y_step = y_dims.back();
    for (int i = rank - 2; i >= 0; --i) {
      const int64_t size = std::min(x_dims[i], y_dims[i]);
      from += rest % size * x_step;
      to += rest % size * y_step;
      rest /= size;
      x_step *= x_dims[i];
      y_step *= y_dims[i];
    }
    std::copy_n(x + from, columns, y + to);
  }
}

class FftKernel final : public Kernel {
 public:
  FftKernel(int rank, Kind kind, bool inverse) : rank_(rank), kind_(kind), inverse_(inverse) {}

  absl::Status Init(const KernelInit& init) override {
    if (kind_ == Kind::kComplex) return absl::OkStatus();
    ASSIGN_OR_RETURN(const DType real, init.Attr<DType>("Treal"));
    ASSIGN_OR_RETURN(const DType complex, init.Attr<DType>("Tcomplex"));
    if ((real == kFloat) != (complex == kComplex64)) {
      return InvalidArgument("Treal and Tcomplex differ in precision: ", real, " and ", complex);
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& in = c.input(0);
    if (in.rank() < rank_) {
      return InvalidArgument("Input must have rank of at least ", rank_, " but got: ", in.shape());
    }
    Dims dims(in.shape().dims().begin(), in.shape().dims().end());  // of the transform
    if (kind_ != Kind::kComplex) RETURN_IF_ERROR(ReadLength(c, dims));
    Dims out_dims = dims;
    if (kind_ == Kind::kFromReal && dims.back() != 0) out_dims.back() = dims.back() / 2 + 1;
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(out_dims));
    RETURN_IF_ERROR(Shape::Make(dims).status());
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    if (in.num_elements() == 0) ClearElements(out);  // fft_length may be anything then
    if (in.num_elements() == 0 || shape.num_elements() == 0) return absl::OkStatus();
    const DType type = kind_ == Kind::kFromReal ? c.output_type(0) : in.dtype();
    return type == kComplex64 ? Run<float>(c, dims, out) : Run<double>(c, dims, out);
  }

 private:
  // The lengths of the transform into the last of `dims`.
  absl::Status ReadLength(KernelContext& c, Dims& dims) const {
    const Tensor& length = c.input(1);
    if (length.rank() != 1 || length.dim(0) != rank_) {
      return InvalidArgument("fft_length must have shape [", rank_, "], but got: ", length.shape());
    }
    for (int i = 0; i < rank_; ++i) {
      const int64_t n = length.data<int32_t>()[i];
      const size_t axis = dims.size() - rank_ + i;
      if (n < 0) return InvalidArgument("fft_length[", i, "] must >= 0, but got: ", n);
      const int64_t needed = kind_ == Kind::kToReal && i + 1 == rank_ ? n / 2 + 1 : n;
      if (dims[axis] != 0 && dims[axis] < needed) {
        return InvalidArgument("Input dimension ", axis, " must have length of at least ", needed,
                               " but got: ", dims[axis]);
      }
      dims[axis] = n;
    }
    return absl::OkStatus();
  }

  // `dims` are those of the real or complex numbers that are transformed.
  template <typename R>
  absl::Status Run(KernelContext& c, const Dims& dims, Tensor* out) const {
    using Number = std::complex<R>;
    const Tensor& in = c.input(0);
    const int rank = static_cast<int>(dims.size());
    const int64_t n = dims.back();
    if (kind_ == Kind::kFromReal) {
      const R* x = in.data<R>();
      ASSIGN_OR_RETURN(const Shape whole, Shape::Make(dims));
      Tensor cut;
      if (in.shape() != whole) {
        ASSIGN_OR_RETURN(cut, c.AllocateTemporary(in.dtype(), whole));
        CopyCorner(x, in.shape().dims(), cut.mutable_data<R>(), dims);
        x = cut.data<R>();
      }
      TransformReal(c, x, whole.num_elements() / n, n, out->mutable_data<Number>());
      for (int axis = rank - 2; axis >= rank - rank_; --axis) {
        TransformAxis(c, out->mutable_data<Number>(), out->shape().dims(), axis, false);
      }
      return absl::OkStatus();
    }
    if (kind_ == Kind::kComplex) {
      std::copy_n(in.data<Number>(), in.num_elements(), out->mutable_data<Number>());
      for (int axis = rank - 1; axis >= rank - rank_; --axis) {
        TransformAxis(c, out->mutable_data<Number>(), dims, axis, inverse_);
      }
      return absl::OkStatus();
    }
    Dims half_dims = dims;
    half_dims.back() = n / 2 + 1;
    ASSIGN_OR_RETURN(const Shape half, Shape::Make(half_dims));
    ASSIGN_OR_RETURN(Tensor work, c.AllocateTemporary(in.dtype(), half));
    CopyCorner(in.data<Number>(), in.shape().dims(), work.mutable_data<Number>(), half_dims);
    for (int axis = rank - rank_; axis + 1 < rank; ++axis) {
      TransformAxis(c, work.mutable_data<Number>(), half_dims, axis, true);
    }
    InverseToReal(c, work.data<Number>(), half.num_elements() / half_dims.back(), n, out->mutable_data<R>());
    return absl::OkStatus();
  }

  const int rank_;
  const Kind kind_;
  const bool inverse_;
};

template <int rank>
absl::Status ComplexShape(ShapeContext& c) {
  const PartialShape& x = c.input(0);
  if (x.has_rank() && x.rank() < rank) return InvalidArgument("Shape must be at least rank ", rank, " but is ", x);
  c.set_output(0, x);
  return absl::OkStatus();
}
template <int rank, bool from_real>
absl::Status RealShape(ShapeContext& c) {
  RETURN_IF_ERROR(ComplexShape<rank>(c));
  ASSIGN_OR_RETURN(const PartialShape length, c.WithRank(1, 1));
  RETURN_IF_ERROR(MergeDims(length.dim(0), rank).status());
  const PartialShape& x = c.input(0);
  if (!x.has_rank()) return absl::OkStatus();
  const std::optional<Dims> known = ConstantIntegers(c, 1);
  Dims dims(x.dims().begin(), x.dims().end());
  for (int i = 0; i < rank; ++i) {
    int64_t& dim = dims[dims.size() - rank + i];
    dim = known.has_value() && static_cast<int>(known->size()) == rank ? (*known)[i] : PartialShape::kUnknown;
    if (from_real && i + 1 == rank && dim > 0) dim = dim / 2 + 1;
    if (dim < 0) dim = PartialShape::kUnknown;
  }
  c.set_output(0, PartialShape(dims));
  return absl::OkStatus();
}

// ---- gradients ----

std::string WithRank(const char* name, int rank) { return rank == 1 ? name : absl::StrCat(name, rank, "D"); }

Output Integers(const Scope& s, std::vector<int32_t> values) {
  return s.Add("Const", {}, {{"dtype", kInt32}, {"value", Tensor::Vector<int32_t>(values)}});
}
// The number of elements of a transform with these lengths, as a `dtype`.
Output SizeOf(const Scope& s, Output lengths, DType dtype) { return Cast(s, ReduceProd(s, lengths, {0}), dtype); }
// The last `rank` sizes of a shape.
Output LastSizes(const Scope& s, Output shape, int rank) {
  const Output begin = Integers(s, {-rank}), end = Integers(s, {0}), one = Integers(s, {1});
  return s.Add("StridedSlice", {shape, begin, end, one}, {{"end_mask", 1}});
}
// x with zeros behind it in every dimension.
Output GrowTo(const Scope& s, Output x, Output shape) {
  const Output more = Sub(s, shape, s.Add("Shape", {x}));
  const Output none = s.Add("ZerosLike", {more});
  const Output paddings = s.Add("Pack", {OpInput(std::vector<Output>{none, more})}, {{"axis", 1}});
  return s.Add("Pad", {x, paddings});
}

template <int rank, bool inverse>
absl::Status FftGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output size = SizeOf(s, LastSizes(s, s.Add("Shape", {g.dy()}), rank), g.dy().dtype());
  const Output turned = s.Add(WithRank(inverse ? "FFT" : "IFFT", rank), {g.dy()});
  g.set_dx(0, inverse ? RealDiv(s, turned, size) : Mul(s, turned, size));
  return absl::OkStatus();
}

// RFFT is FFT of which half is left out: zeros take its place.
template <int rank>
absl::Status FromRealGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output x = g.input(0), length = g.input(1), dy = g.dy();
  const Output shape = s.Add("Shape", {x});
  const Output batch =
      s.Add("StridedSlice", {shape, Integers(s, {0}), Integers(s, {-rank}), Integers(s, {1})}, {{"begin_mask", 1}});
  const Output whole = s.Add("ConcatV2", {OpInput(std::vector<Output>{batch, length}), ScalarConst(s, kInt32, 0)});
  const Output turned = s.Add(WithRank("IFFT", rank), {GrowTo(s, dy, whole)});
  const Output dx = s.Add("Real", {Mul(s, turned, SizeOf(s, length, dy.dtype()))}, {{"Tout", x.dtype()}});
  g.set_dx(0, GrowTo(s, dx, shape));
  return absl::OkStatus();
}

// Every element of the input stands for its conjugate too, except the first and
// the one in the middle.
template <int rank>
absl::Status ToRealGradient(GradientContext& g) {
  const Scope& s = g.scope();
  const Output x = g.input(0), length = g.input(1);
  const Output turned = s.Add(WithRank("RFFT", rank), {g.dy(), length}, {{"Tcomplex", x.dtype()}});
  const Output n = s.Add("Squeeze", {LastSizes(s, length, 1)});
  const Output zero = ScalarConst(s, kInt32, 0), one = ScalarConst(s, kInt32, 1), two = ScalarConst(s, kInt32, 2);
  const Output k = s.Add("Range", {zero, Add(s, FloorDiv(s, n, two), one), one});
  const Output single = LogicalOr(s, Equal(s, k, zero), Equal(s, Mul(s, k, two), n));
  const Output weight = Cast(s, Sub(s, two, Cast(s, single, kInt32)), x.dtype());
  const Output dx = RealDiv(s, Mul(s, turned, weight), SizeOf(s, length, x.dtype()));
  g.set_dx(0, GrowTo(s, dx, s.Add("Shape", {x})));
  return absl::OkStatus();
}

template <int rank, bool inverse>
Op ComplexOp() {
  Op op(WithRank(inverse ? "IFFT" : "FFT", rank));
  return op.Input("input: Tcomplex")
      .Output("output: Tcomplex")
      .Attr("Tcomplex: {complex64, complex128} = DT_COMPLEX64")
      .Shape(ComplexShape<rank>)
      .template Kernel<FftKernel>(rank, Kind::kComplex, inverse)
      .Gradient(FftGradient<rank, inverse>);
}
template <int rank, bool from_real>
Op RealOp() {
  Op op(WithRank(from_real ? "RFFT" : "IRFFT", rank));
  return op.Input(from_real ? "input: Treal" : "input: Tcomplex")
      .Input("fft_length: int32")
      .Output(from_real ? "output: Tcomplex" : "output: Treal")
      .Attr("Treal: {float, double} = DT_FLOAT")
      .Attr("Tcomplex: {complex64, complex128} = DT_COMPLEX64")
      .Shape(RealShape<rank, from_real>)
      .template Kernel<FftKernel>(rank, from_real ? Kind::kFromReal : Kind::kToReal, !from_real)
      .Gradient(from_real ? FromRealGradient<rank> : ToRealGradient<rank>);
}

const OpRegistration kFftOps[] = {
    ComplexOp<1, false>(), ComplexOp<2, false>(), ComplexOp<3, false>(), ComplexOp<1, true>(),
    ComplexOp<2, true>(),  ComplexOp<3, true>(),  RealOp<1, true>(),     RealOp<2, true>(),
    RealOp<3, true>(),     RealOp<1, false>(),    RealOp<2, false>(),    RealOp<3, false>(),
};

}  // namespace
}  // namespace thalweg
