// SPDX-License-Identifier: Apache-2.0
// QuantizedAdd, QuantizedMul, QuantizedBiasAdd and QuantizedMatMul: arithmetic on
// integers that stand for ranges of floats, with sums and products of 32 bits.
#include <algorithm>
#include <cmath>

#include "thalweg/kernel/op.h"
#include "thalweg/ops/quantization/quantized_range.h"
#include "thalweg/ops/support/broadcast.h"

namespace thalweg {
namespace {

using ByteTypes = Types<int8_t, uint8_t>;

// The range of a product of integers of types A and B, as 32 bits.
template <typename A, typename B>
QuantizedRange ProductRange(const QuantizedRange& a, const QuantizedRange& b) {
  const float level = OneLevel<A>(a) * OneLevel<B>(b);
  return {level * static_cast<float>(std::numeric_limits<int32_t>::lowest()),
          level * static_cast<float>(std::numeric_limits<int32_t>::max())};
}

// The product, which wraps around like that of TensorFlow's machine words.
int32_t Product(int64_t a, int64_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}

// Integers of 8 bits as those of 32 that stand for the same floats in another
// range. As in TensorFlow, the distance of two neighbours is rounded once for a
// tensor; a single element is rounded by itself.
template <typename T>
class Widened {
 public:
  Widened(const QuantizedRange& from, const QuantizedRange& to, bool single)
      : first_(Unclamped<int32_t>(ToFloat<T>(0, from), to)),
        step_(static_cast<int32_t>(Unclamped<int32_t>(ToFloat<T>(1, from), to) - first_)),
        from_(from),
        to_(to),
        single_(single) {}
  int32_t operator()(T value) const {
    if (single_) return ToQuantized<int32_t>(ToFloat(value, from_), to_);
    const int64_t wide = first_ + int64_t{value} * step_;
    return static_cast<int32_t>(
        std::clamp<int64_t>(wide, std::numeric_limits<int32_t>::lowest(), std::numeric_limits<int32_t>::max()));
  }

 private:
  const int64_t first_;
  const int32_t step_;
  const QuantizedRange from_, to_;
  const bool single_;
};

// z[i] = f(x's element, y's element) for every element of the result.
template <typename F>
void ForPairs(const Broadcast& b, const F& f) {
  const int64_t n = b.shape.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, x = 0, y = 0;
    for (size_t d = 0; d < b.sizes.size(); ++d) {
      x += rest % b.sizes[d] * b.x_strides[d];
      y += rest % b.sizes[d] * b.y_strides[d];
      rest /= b.sizes[d];
    }
    f(i, x, y);
  }
}

template <bool kMultiply>
absl::Status ComputePairs(KernelContext& c) {
  ASSIGN_OR_RETURN(const QuantizedRange rx, RangeInput(c, 2));
  ASSIGN_OR_RETURN(const QuantizedRange ry, RangeInput(c, 4));
  const Tensor x = c.input(0), y = c.input(1);
  ASSIGN_OR_RETURN(const Broadcast b, Broadcast::Make(x.shape(), y.shape()));
  if (!(rx.max > rx.min)) return InvalidArgument("max_x must be larger than min_x.");
  if (!(ry.max > ry.min)) return InvalidArgument("max_y must be larger than min_y.");
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, b.shape));
  if (StorageType(out->dtype()) != kInt32) return Unimplemented("a result of type ", out->dtype(), "; use qint32");
  return Dispatch(ByteTypes(), StorageType(x.dtype()), [&]<typename X>() {
    return Dispatch(ByteTypes(), StorageType(y.dtype()), [&]<typename Y>() -> absl::Status {
      const X* const px = Integers<X>(x);
      const Y* const py = Integers<Y>(y);
      int32_t* const pz = MutableIntegers<int32_t>(out);
      if constexpr (kMultiply) {
        const int64_t zero_x = Unclamped<X>(0, rx), zero_y = Unclamped<Y>(0, ry);
        ForPairs(b, [&](int64_t i, int64_t j, int64_t k) { pz[i] = Product(px[j] - zero_x, py[k] - zero_y); });
        return SetRange(c, 1, ProductRange<X, Y>(rx, ry));
      } else {
        const float most = std::max(std::abs(std::min(rx.min, ry.min)), std::abs(std::max(rx.max, ry.max))) * (1 << 14);
        const QuantizedRange sum{-most, most};
        const Widened<X> wide_x(rx, sum, x.num_elements() == 1);
        const Widened<Y> wide_y(ry, sum, x.num_elements() != 1 && y.num_elements() == 1);
        ForPairs(b, [&](int64_t i, int64_t j, int64_t k) {
          pz[i] = static_cast<int32_t>(static_cast<uint32_t>(wide_x(px[j])) + static_cast<uint32_t>(wide_y(py[k])));
        });
        return SetRange(c, 1, sum);
      }
    });
  });
}

absl::Status ComputeBiasAdd(KernelContext& c) {
  const Tensor x = c.input(0), bias = c.input(1);
  ASSIGN_OR_RETURN(const QuantizedRange rx, RangeInput(c, 2));
  ASSIGN_OR_RETURN(const QuantizedRange rb, RangeInput(c, 4));
  if (x.rank() < 2) return InvalidArgument("Input tensor must be at least 2D: ", x.shape());
  if (bias.rank() != 1) return InvalidArgument("Biases must be 1D: ", bias.shape());
  const int64_t n = bias.num_elements();
  if (n != x.dim(x.rank() - 1)) {
    return InvalidArgument("Must provide as many biases as the last dimension of the input tensor: ", bias.shape(),
                           " vs. ", x.shape());
  }
  if (n == 0) return InvalidArgument("Must provide at least 1 bias");
  ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, x.shape()));
  if (StorageType(out->dtype()) != kInt32) return Unimplemented("a result of type ", out->dtype(), "; use qint32");
  const float most = std::max(std::max(rx.max, -rx.min), std::max(rb.max, -rb.min)) * (1 << 17);
  const QuantizedRange sum{-most, most};
  RETURN_IF_ERROR(SetRange(c, 1, sum));
  return Dispatch(ByteTypes(), StorageType(x.dtype()), [&]<typename X>() {
    return Dispatch(ByteTypes(), StorageType(bias.dtype()), [&]<typename B>() {
      const FromQuantizedFloats<X> floats(rx);
      const FromQuantizedFloats<B> biases(rb);
      const ToQuantizedFloats<int32_t> quantized(sum);
      const int32_t zero = ToQuantized<int32_t>(0, sum);  // may not be 0 exactly
      for (int64_t i = 0; i < x.num_elements(); ++i) {
        const int64_t sum_of_both =
            int64_t{quantized(floats(Integers<X>(x)[i]))} + quantized(biases(Integers<B>(bias)[i % n])) + zero;
        MutableIntegers<int32_t>(out)[i] = static_cast<int32_t>(sum_of_both);
      }
      return absl::OkStatus();
    });
  });
}

class QuantizedMatMulKernel final : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    ASSIGN_OR_RETURN(transpose_a_, init.Attr<bool>("transpose_a"));
    ASSIGN_OR_RETURN(transpose_b_, init.Attr<bool>("transpose_b"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor a = c.input(0), b = c.input(1);
    ASSIGN_OR_RETURN(const QuantizedRange ra, RangeInput(c, 2));
    ASSIGN_OR_RETURN(const QuantizedRange rb, RangeInput(c, 4));
    if (a.rank() != 2) return InvalidArgument("In[0] is not a matrix");
    if (b.rank() != 2) return InvalidArgument("In[1] is not a matrix");
    const int64_t m = a.dim(transpose_a_ ? 1 : 0), depth = a.dim(transpose_a_ ? 0 : 1);
    const int64_t n = b.dim(transpose_b_ ? 0 : 1);
    if (depth != b.dim(transpose_b_ ? 1 : 0)) {
      return InvalidArgument("Matrix size-compatible: In[0]: ", a.shape(), ", In[1]: ", b.shape());
    }
    ASSIGN_OR_RETURN(const Shape shape, Shape::Make({m, n}));
    ASSIGN_OR_RETURN(Tensor* const out, c.Allocate(0, shape));
    if (StorageType(out->dtype()) != kInt32) return Unimplemented("a result of type ", out->dtype(), "; use qint32");
    return Dispatch(ByteTypes(), StorageType(a.dtype()), [&]<typename A>() {
      return Dispatch(ByteTypes(), StorageType(b.dtype()), [&]<typename B>() {
        const int64_t zero_a = Unclamped<A>(0, ra), zero_b = Unclamped<B>(0, rb);
        const int64_t a_row = transpose_a_ ? 1 : depth, a_step = transpose_a_ ? m : 1;
        const int64_t b_row = transpose_b_ ? 1 : n, b_step = transpose_b_ ? depth : 1;
        const A* const pa = Integers<A>(a);
        const B* const pb = Integers<B>(b);
        c.ParallelFor(m, static_cast<double>(n) * static_cast<double>(depth), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            int32_t* const row = MutableIntegers<int32_t>(out) + i * n;
            for (int64_t j = 0; j < n; ++j) {
              uint32_t sum = 0;
              for (int64_t k = 0; k < depth; ++k) {
                sum += static_cast<uint32_t>(
                    Product(pa[i * a_row + k * a_step] - zero_a, pb[k * b_row + j * b_step] - zero_b));
              }
              row[j] = static_cast<int32_t>(sum);
            }
          }
        });
        return SetRange(c, 1, ProductRange<A, B>(ra, rb));
      });
    });
  }

 private:
  bool transpose_a_ = false, transpose_b_ = false;
};

absl::Status RequireRanges(ShapeContext& c) {
  for (int i = 2; i < 6; ++i) RETURN_IF_ERROR(c.RequireScalar(i));
  c.set_output(1, PartialShape(Shape()));
  c.set_output(2, PartialShape(Shape()));
  return absl::OkStatus();
}

absl::Status PairsShape(ShapeContext& c) {
  RETURN_IF_ERROR(RequireRanges(c));
  ASSIGN_OR_RETURN(const PartialShape shape, BroadcastShape(c.input(0), c.input(1)));
  c.set_output(0, shape);
  return absl::OkStatus();
}

absl::Status BiasAddShape(ShapeContext& c) {
  RETURN_IF_ERROR(RequireRanges(c));
  RETURN_IF_ERROR(c.WithRank(1, 1).status());
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

absl::Status MatMulShape(ShapeContext& c) {
  RETURN_IF_ERROR(RequireRanges(c));
  ASSIGN_OR_RETURN(const PartialShape a, c.WithRank(0, 2));
  ASSIGN_OR_RETURN(const PartialShape b, c.WithRank(1, 2));
  ASSIGN_OR_RETURN(const bool ta, c.Attr<bool>("transpose_a"));
  ASSIGN_OR_RETURN(const bool tb, c.Attr<bool>("transpose_b"));
  c.set_output(0, PartialShape({a.dim(ta ? 1 : 0), b.dim(tb ? 0 : 1)}));
  return absl::OkStatus();
}

constexpr char kT1[] = "T1: {qint8, quint8, qint32, qint16, quint16}";
constexpr char kT2[] = "T2: {qint8, quint8, qint32, qint16, quint16}";
constexpr char kToutput[] = "Toutput: {qint8, quint8, qint32, qint16, quint16} = DT_QINT32";

Op Pairs(absl::string_view name) {
  return Op(name)
      .Input("x: T1")
      .Input("y: T2")
      .Input("min_x: float")
      .Input("max_x: float")
      .Input("min_y: float")
      .Input("max_y: float")
      .Output("z: Toutput")
      .Output("min_z: float")
      .Output("max_z: float")
      .Attr(kT1)
      .Attr(kT2)
      .Attr(kToutput)
      .Shape(PairsShape)
      .NotDifferentiable();
}

const OpRegistration kQuantizedMathOps[] = {
    Pairs("QuantizedAdd").Compute(ComputePairs<false>),
    Pairs("QuantizedMul").Compute(ComputePairs<true>),
    Op("QuantizedBiasAdd")
        .Input("input: T1")
        .Input("bias: T2")
        .Input("min_input: float")
        .Input("max_input: float")
        .Input("min_bias: float")
        .Input("max_bias: float")
        .Output("output: out_type")
        .Output("min_out: float")
        .Output("max_out: float")
        .Attr(kT1)
        .Attr(kT2)
        .Attr("out_type: {qint8, quint8, qint32, qint16, quint16}")
        .Shape(BiasAddShape)
        .Compute(ComputeBiasAdd)
        .NotDifferentiable(),
    Op("QuantizedMatMul")
        .Input("a: T1")
        .Input("b: T2")
        .Input("min_a: float")
        .Input("max_a: float")
        .Input("min_b: float")
        .Input("max_b: float")
        .Output("out: Toutput")
        .Output("min_out: float")
        .Output("max_out: float")
        .Attr(kT1)
        .Attr(kT2)
        .Attr(kToutput)
        .Attr("transpose_a: bool = false")
        .Attr("transpose_b: bool = false")
        .Attr("Tactivation: {qint8, quint8, qint32, qint16, quint16} = DT_QUINT8")
        .Shape(MatMulShape)
        .Kernel<QuantizedMatMulKernel>()
        .NotDifferentiable(),
};

}  // namespace
}  // namespace thalweg
