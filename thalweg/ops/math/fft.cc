// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms over the last one, two or three dimensions:
//
//   FFT(x)[k] = sum_j x[j] exp(-2 pi i j k / n),  IFFT(FFT(x)) = x
//
// and RFFT of real numbers, which gives only the first n/2+1 of the last
// dimension: the others are their conjugates. RFFT and IRFFT take the first
// `fft_length` elements of each dimension.
//
// fft_plan.h and fft_line.h have the algorithms. Short lines are transformed several at a time. A real line is half a
// complex one, so that two of them share a lane.
#include <algorithm>
#include <complex>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "thalweg/base/mutex.h"
#include "thalweg/base/simd.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/array_ops.h"
#include "thalweg/ops/math/fft_line.h"
#include "thalweg/ops/math/fft_plan.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/broadcast.h"
#include "thalweg/ops/support/element_copy.h"
#include "thalweg/ops/support/shape_arguments.h"

namespace thalweg {
namespace {

using fft::Elements;
using fft::kLanes;
using fft::Lanes;
using fft::LinePlan;
using fft::LoadLanes;
using fft::Plan;
using fft::RealLinePlan;
using fft::StoreLanes;

// The plans of one kind in a kernel, which makes transforms of a few lengths again and again. Thread-safe.
template <typename P>
class PlanCache {
 public:
  std::shared_ptr<const P> Get(int64_t n) const {
    {
      MutexLock lock(&mutex_);
      if (const auto known = plans_.find(n); known != plans_.end()) return known->second;
    }
    auto plan = std::make_shared<const P>(n);
    MutexLock lock(&mutex_);
    if (plans_.size() >= kMost) plans_.clear();
    plans_[n] = plan;
    return plan;
  }

 private:
  static constexpr size_t kMost = 8;  // a plan has as many numbers as a line, or more

  mutable Mutex mutex_;
  mutable std::map<int64_t, std::shared_ptr<const P>> plans_ ABSL_GUARDED_BY(mutex_);
};

template <typename R>
struct Plans {
  PlanCache<Plan<R>> lanes;
  PlanCache<LinePlan<R>> lines;
  PlanCache<RealLinePlan<R>> real_lines;
};

// From these lengths on, lines are faster one by one than several at a time: those of complex numbers when several do
// not fit into the cache, those of real numbers when the separation of two that share a lane costs more.
constexpr int64_t kLeastLine = 4097, kLeastRealLine = 256;

enum class Kind { kComplex, kFromReal, kToReal };

// Turns the transform of a line into the inverse, which has element n - k in the place of element k, and a factor.
template <typename R>
THALWEG_SIMD void Invert(Lanes<R>* x, int64_t n) {
  const R scale = R(1) / static_cast<R>(n);
  std::reverse(x + 1, x + n);
  for (int64_t k = 0; k < n; ++k) {
    x[k].re *= scale;
    x[k].im *= scale;
  }
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

// Runs body(line, work) for each line.
template <typename R, typename F>
void ForEachLine(KernelContext& c, int64_t lines, int64_t n, const F& body) {
  c.ParallelFor(lines, 2.5 * static_cast<double>(n), [&](int64_t begin, int64_t end) {
    typename LinePlan<R>::Work work;
    for (int64_t line = begin; line < end; ++line) body(line, work);
  });
}

// Transforms x along dimension `axis` into y, which may be x.
template <typename R>
void TransformAxis(KernelContext& c, const Plans<R>& plans, const std::complex<R>* x, absl::Span<const int64_t> dims,
                   int axis, bool inverse, std::complex<R>* y) {
  const int64_t n = dims[axis];
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= dims[i];
  for (size_t i = axis + 1; i < dims.size(); ++i) inner *= dims[i];
  if (inner == 1 && n >= kLeastLine && LinePlan<R>::Takes(n)) {
    const auto plan = plans.lines.Get(n);
    ForEachLine<R>(c, outer, n, [&](int64_t line, typename LinePlan<R>::Work& work) {
      plan->Run(x + line * n, y + line * n, inverse, work);
    });
    return;
  }
  const auto plan = plans.lanes.Get(n);
  constexpr int64_t kGroup = kLanes<R>;
  using Buffer = typename Plan<R>::Buffer;
  ForEachGroup<R>(c, outer * inner, kGroup, n, [&](int64_t first, int64_t count, Buffer& buffer, Buffer& work) {
    const auto start = [&](int64_t line) { return line / inner * n * inner + line % inner; };
    const bool adjacent = start(first + kGroup - 1) == start(first) + kGroup - 1 && count == kGroup;
    if (inner == 1) {
      LoadLanes(reinterpret_cast<const R*>(x + first * n), 2 * n, count, 2 * n, Elements(buffer));
    } else if (adjacent) {
      LoadAdjacent(x + start(first), inner, n, buffer.data());
    } else {
      for (int64_t l = 0; l < count; ++l) {
        const std::complex<R>* const from = x + start(first + l);
        for (int64_t k = 0; k < n; ++k) {
          buffer[k].re[l] = from[k * inner].real();
          buffer[k].im[l] = from[k * inner].imag();
        }
      }
    }
    plan->Run(buffer, work);
    if (inverse) Invert(buffer.data(), n);
    if (inner == 1) {
      StoreLanes(Elements(buffer), count, 2 * n, reinterpret_cast<R*>(y + first * n), 2 * n);
    } else if (adjacent) {
      StoreAdjacent(buffer.data(), inner, n, y + start(first));
    } else {
      for (int64_t l = 0; l < count; ++l) {
        std::complex<R>* const to = y + start(first + l);
        for (int64_t k = 0; k < n; ++k) to[k * inner] = {buffer[k].re[l], buffer[k].im[l]};
      }
    }
  });
}

// Two real lines a and b are the complex line z = a + ib. Their transforms are A[k] = (Z[k] + conj Z[n-k]) / 2 and
// B[k] = (Z[k] - conj Z[n-k]) / 2i, of which the first n/2+1 are kept.
template <typename R>
THALWEG_SIMD void Separate(const Lanes<R>* z, int64_t n, Lanes<R>* a, Lanes<R>* b) {
  for (int64_t k = 0; k < n / 2 + 1; ++k) {
    const Lanes<R>&x = z[k], &back = z[k == 0 ? 0 : n - k];
    a[k] = {(x.re + back.re) / 2, (x.im - back.im) / 2};
    b[k] = {(x.im + back.im) / 2, (back.re - x.re) / 2};
  }
}

// The reverse: Z = A + iB. Imaginary parts of the first element and of the middle one are not read.
template <typename R>
THALWEG_SIMD void Combine(const Lanes<R>* a, const Lanes<R>* b, int64_t n, Lanes<R>* z) {
  for (int64_t k = 0; k < n / 2 + 1; ++k) {
    if (k == 0 || 2 * k == n) {
      z[k] = {a[k].re, b[k].re};
    } else {
      z[k] = {a[k].re - b[k].im, a[k].im + b[k].re};
      z[n - k] = {a[k].re + b[k].im, b[k].re - a[k].im};
    }
  }
}

// Transforms real lines of n into the first n/2+1 elements of their transforms.
template <typename R>
void TransformReal(KernelContext& c, const Plans<R>& plans, const R* x, int64_t lines, int64_t n, std::complex<R>* y) {
  const int64_t half = n / 2 + 1;
  if (n >= kLeastRealLine && RealLinePlan<R>::Takes(n)) {
    const auto plan = plans.real_lines.Get(n);
    ForEachLine<R>(c, lines, n, [&](int64_t line, typename RealLinePlan<R>::Work& work) {
      plan->Run(x + line * n, y + line * half, work);
    });
    return;
  }
  const auto plan = plans.lanes.Get(n);
  constexpr int64_t kGroup = kLanes<R>;
  using Buffer = typename Plan<R>::Buffer;
  ForEachGroup<R>(c, lines, 2 * kGroup, n, [&](int64_t first, int64_t count, Buffer& buffer, Buffer& work) {
    const int64_t count_a = std::min(count, kGroup), count_b = count - count_a;
    const R* const from = x + first * n;
    LoadLanes(from, n, count_a, n, Elements(buffer), 2 * kGroup);
    LoadLanes(from + kGroup * n, n, count_b, n, Elements(buffer) + kGroup, 2 * kGroup);
    plan->Run(buffer, work);
    if (static_cast<int64_t>(work.size()) < 2 * half) work.resize(2 * half);
    Separate(buffer.data(), n, work.data(), work.data() + half);
    R* const to = reinterpret_cast<R*>(y + first * half);
    StoreLanes(Elements(work), count_a, 2 * half, to, 2 * half);
    StoreLanes(Elements(work) + 2 * half * kGroup, count_b, 2 * half, to + kGroup * 2 * half, 2 * half);
  });
}

// The inverse of TransformReal: from lines of n/2+1 numbers, real lines of n.
template <typename R>
void InverseToReal(KernelContext& c, const Plans<R>& plans, const std::complex<R>* x, int64_t lines, int64_t n, R* y) {
  const int64_t half = n / 2 + 1;
  if (n >= kLeastRealLine && RealLinePlan<R>::Takes(n)) {
    const auto plan = plans.real_lines.Get(n);
    ForEachLine<R>(c, lines, n, [&](int64_t line, typename RealLinePlan<R>::Work& work) {
      plan->RunInverse(x + line * half, y + line * n, work);
    });
    return;
  }
  const auto plan = plans.lanes.Get(n);
  constexpr int64_t kGroup = kLanes<R>;
  using Buffer = typename Plan<R>::Buffer;
  ForEachGroup<R>(c, lines, 2 * kGroup, n, [&](int64_t first, int64_t count, Buffer& buffer, Buffer& work) {
    const int64_t count_a = std::min(count, kGroup), count_b = count - count_a;
    if (static_cast<int64_t>(work.size()) < 2 * half) work.resize(2 * half);
    const R* const from = reinterpret_cast<const R*>(x + first * half);
    LoadLanes(from, 2 * half, count_a, 2 * half, Elements(work));
    LoadLanes(from + kGroup * 2 * half, 2 * half, count_b, 2 * half, Elements(work) + 2 * half * kGroup);
    Combine(work.data(), work.data() + half, n, buffer.data());
    plan->Run(buffer, work);
    Invert(buffer.data(), n);
    R* const to = y + first * n;
    StoreLanes(Elements(buffer), count_a, n, to, n, 2 * kGroup);
    StoreLanes(Elements(buffer) + kGroup, count_b, n, to + kGroup * n, n, 2 * kGroup);
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
    Dims dims(in.shape().dims().begin(), in.shape().dims().end());  // dimensions of the transform
    if (kind_ != Kind::kComplex) RETURN_IF_ERROR(ReadLength(c, dims));
    Dims out_dims = dims;
    if (kind_ == Kind::kFromReal && dims.back() != 0) out_dims.back() = dims.back() / 2 + 1;
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make(out_dims));
    RETURN_IF_ERROR(Shape::Make(dims).status());
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    if (in.num_elements() == 0) ClearElements(out);  // fft_length may be anything then
    if (in.num_elements() == 0 || shape.num_elements() == 0) return absl::OkStatus();
    const DType type = kind_ == Kind::kFromReal ? c.output_type(0) : in.dtype();
    return type == kComplex64 ? Run(c, floats_, dims, out) : Run(c, doubles_, dims, out);
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
  absl::Status Run(KernelContext& c, const Plans<R>& plans, const Dims& dims, Tensor* out) const {
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
      Number* const y = out->mutable_data<Number>();
      TransformReal(c, plans, x, whole.num_elements() / n, n, y);
      for (int axis = rank - 2; axis >= rank - rank_; --axis) {
        TransformAxis(c, plans, y, out->shape().dims(), axis, false, y);
      }
      return absl::OkStatus();
    }
    if (kind_ == Kind::kComplex) {
      const Number* x = in.data<Number>();
      for (int axis = rank - 1; axis >= rank - rank_; --axis) {
        TransformAxis(c, plans, x, dims, axis, inverse_, out->mutable_data<Number>());
        x = out->data<Number>();
      }
      return absl::OkStatus();
    }
    Dims half_dims = dims;
    half_dims.back() = n / 2 + 1;
    ASSIGN_OR_RETURN(const Shape half, Shape::Make(half_dims));
    ASSIGN_OR_RETURN(Tensor work, c.AllocateTemporary(in.dtype(), half));
    CopyCorner(in.data<Number>(), in.shape().dims(), work.mutable_data<Number>(), half_dims);
    for (int axis = rank - rank_; axis + 1 < rank; ++axis) {
      TransformAxis(c, plans, work.data<Number>(), half_dims, axis, true, work.mutable_data<Number>());
    }
    InverseToReal(c, plans, work.data<Number>(), half.num_elements() / half_dims.back(), n, out->mutable_data<R>());
    return absl::OkStatus();
  }

  const int rank_;
  const Kind kind_;
  const bool inverse_;
  const Plans<float> floats_;
  const Plans<double> doubles_;
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

Output Integers(const Scope& s, const std::vector<int32_t>& values) {
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
