// Discrete Fourier transforms over the last one, two or three dimensions:
//
//   FFT(x)[k] = sum_j x[j] exp(-2 pi i j k / n),  IFFT(FFT(x)) = x
//
// and RFFT of real numbers, which gives only the first n/2+1 of the last
// dimension: the others are their conjugates. RFFT and IRFFT take the first
// `fft_length` elements of each dimension. Computed in double precision
// whatever the type.
#include <cmath>
#include <complex>
#include <memory>
#include <numbers>
#include <vector>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

using Number = std::complex<double>;

Number Multiply(Number a, Number b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// exp(-2 pi i k / n), for every k below n.
std::vector<Number> Roots(int64_t n) {
  std::vector<Number> roots(n);
  for (int64_t k = 0; k < n; ++k) roots[k] = std::polar(1.0, -2 * std::numbers::pi * k / n);
  return roots;
}

// Transforms of one length. Lengths of small prime factors by Stockham's passes
// from one buffer to another, which need no reordering; others as a convolution
// with exp(-pi i k^2 / n) of a length that is a power of two (Bluestein).
// Constant after construction.
class Plan {
 public:
  explicit Plan(int64_t n) : n_(n) {
    int64_t rest = n;
    for (const int p : {4, 2, 3, 5, 7, 11, 13}) {
      for (; rest % p == 0; rest /= p) factors_.push_back(p);
    }
    if (rest == 1) {
      roots_ = Roots(n);
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
      chirp_[k] = std::polar(1.0, -std::numbers::pi * square / n);
      filter_[k] = filter_[(m - k) % m] = std::conj(chirp_[k]);
    }
    std::vector<Number> work;
    wide_->Run(filter_.data(), work);
  }

  // In place. `work` grows as needed.
  void Run(Number* x, std::vector<Number>& work) const {
    if (wide_ != nullptr) return RunChirp(x, work);
    if (static_cast<int64_t>(work.size()) < n_) work.resize(n_);
    Number* from = x;
    Number* to = work.data();
    int64_t length = n_, stride = 1;
    for (const int p : factors_) {
      Pass(p, length / p, stride, from, to);
      std::swap(from, to);
      length /= p;
      stride *= p;
    }
    if (from != x) std::copy_n(from, n_, x);
  }

 private:
  // y[k + s (p j + r)] = w^(s j r) sum_q x[k + s (j + m q)] w^(q r n / p): the
  // transforms over q, of length p, turned so that those over j remain.
  void Pass(int p, int64_t m, int64_t s, const Number* x, Number* y) const {
    for (int64_t j = 0; j < m; ++j) {
      const Number* const in = x + s * j;
      Number* const out = y + s * p * j;
      if (p == 2) {
        const Number w = roots_[s * j];
        for (int64_t k = 0; k < s; ++k) {
          const Number a = in[k], b = in[k + s * m];
          out[k] = a + b;
          out[k + s] = Multiply(a - b, w);
        }
      } else if (p == 4) {
        const Number w1 = roots_[s * j], w2 = roots_[2 * s * j], w3 = roots_[3 * s * j];
        for (int64_t k = 0; k < s; ++k) {
          const Number a = in[k], b = in[k + s * m], c = in[k + 2 * s * m], d = in[k + 3 * s * m];
          const Number even = a + c, odd = b + d, minus = a - c, turned((b - d).imag(), -(b - d).real());
          out[k] = even + odd;
          out[k + s] = Multiply(minus + turned, w1);
          out[k + 2 * s] = Multiply(even - odd, w2);
          out[k + 3 * s] = Multiply(minus - turned, w3);
        }
      } else {
        for (int64_t k = 0; k < s; ++k) {
          for (int r = 0; r < p; ++r) {
            Number sum = in[k];
            for (int q = 1; q < p; ++q) sum += Multiply(in[k + s * m * q], roots_[n_ / p * (q * r % p)]);
            out[k + s * r] = Multiply(sum, roots_[s * j * r]);
          }
        }
      }
    }
  }

  void RunChirp(Number* x, std::vector<Number>& work) const {
    const int64_t m = wide_->n_;
    std::vector<Number> wide(m);
    for (int64_t k = 0; k < n_; ++k) wide[k] = Multiply(x[k], chirp_[k]);
    wide_->Run(wide.data(), work);
    for (int64_t k = 0; k < m; ++k) wide[k] = std::conj(Multiply(wide[k], filter_[k]));
    wide_->Run(wide.data(), work);
    for (int64_t k = 0; k < n_; ++k) x[k] = Multiply(std::conj(wide[k]) / static_cast<double>(m), chirp_[k]);
  }

  const int64_t n_;
  std::vector<int> factors_;
  std::vector<Number> roots_;
  std::unique_ptr<Plan> wide_;
  std::vector<Number> chirp_;
  std::vector<Number> filter_;
};

enum class Kind { kComplex, kFromReal, kToReal };

// Along dimension `axis` of x.
void TransformAxis(KernelContext& c, Number* x, absl::Span<const int64_t> dims, int axis, bool inverse) {
  const int64_t n = dims[axis];
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= dims[i];
  for (size_t i = axis + 1; i < dims.size(); ++i) inner *= dims[i];
  const Plan plan(n);
  const double scale = inverse ? 1.0 / static_cast<double>(n) : 1;
  c.ParallelFor(outer * inner, 10.0 * n, [&](int64_t begin, int64_t end) {
    std::vector<Number> line(n), work;
    for (int64_t l = begin; l < end; ++l) {
      Number* const at = x + l / inner * n * inner + l % inner;
      for (int64_t k = 0; k < n; ++k) line[k] = inverse ? std::conj(at[k * inner]) : at[k * inner];
      plan.Run(line.data(), work);
      for (int64_t k = 0; k < n; ++k) at[k * inner] = inverse ? std::conj(line[k]) * scale : line[k];
    }
  });
}

// Copies the corner that two boxes of the same rank have in common; of complex
// numbers only the real part, if the second is real.
template <typename From, typename To>
void CopyCorner(const From* x, absl::Span<const int64_t> x_dims, To* y, absl::Span<const int64_t> y_dims) {
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
    for (int64_t k = 0; k < columns; ++k) {
      if constexpr (std::is_arithmetic_v<To>) {
        y[to + k] = static_cast<To>(x[from + k].real());
      } else {
        y[to + k] = To(x[from + k]);
      }
    }
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
    ASSIGN_OR_RETURN(const Shape whole, Shape::Make(dims));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    if (in.num_elements() == 0) ClearElements(out);  // fft_length may be anything then
    if (in.num_elements() == 0 || shape.num_elements() == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(Tensor work, c.AllocateTemporary(kComplex128, whole));
    Number* const x = work.mutable_data<Number>();
    std::fill_n(x, whole.num_elements(), Number());
    const auto run = [&]<typename R>(R) {
      if (kind_ == Kind::kFromReal) {
        CopyCorner(in.data<R>(), in.shape().dims(), x, dims);
      } else if (kind_ == Kind::kToReal) {
        CopyCorner(in.data<std::complex<R>>(), in.shape().dims(), x, dims);  // beyond n/2 it is written over
      } else {
        CopyCorner(in.data<std::complex<R>>(), dims, x, dims);
      }
      const int rank = static_cast<int>(dims.size());
      for (int axis = rank - rank_; axis + 1 < rank; ++axis) TransformAxis(c, x, dims, axis, inverse_);
      if (kind_ == Kind::kToReal) FillConjugates(x, whole);
      TransformAxis(c, x, dims, rank - 1, inverse_);
      if (kind_ == Kind::kToReal) {
        CopyCorner(x, dims, out->mutable_data<R>(), out_dims);
      } else {
        CopyCorner(x, dims, out->mutable_data<std::complex<R>>(), out_dims);
      }
    };
    const DType type = kind_ == Kind::kFromReal ? c.output_type(0) : in.dtype();
    type == kComplex64 ? run(float{}) : run(double{});
    return absl::OkStatus();
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

  static void FillConjugates(Number* x, const Shape& shape) {
    const int64_t n = shape.dim(shape.rank() - 1);
    for (Number *row = x, *end = x + shape.num_elements(); row != end; row += n) {
      for (int64_t k = 1; k < (n + 1) / 2; ++k) row[n - k] = std::conj(row[k]);
    }
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
// How many elements a transform of these lengths has, as a number of `dtype`.
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
absl::Status ComplexGradient(GradientContext& g) {
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
      .Gradient(ComplexGradient<rank, inverse>);
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

const OpRegistration kOps[] = {
    ComplexOp<1, false>(), ComplexOp<2, false>(), ComplexOp<3, false>(), ComplexOp<1, true>(),
    ComplexOp<2, true>(),  ComplexOp<3, true>(),  RealOp<1, true>(),     RealOp<2, true>(),
    RealOp<3, true>(),     RealOp<1, false>(),    RealOp<2, false>(),    RealOp<3, false>(),
};

}  // namespace
}  // namespace thalweg
