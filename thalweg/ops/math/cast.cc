// SPDX-License-Identifier: Apache-2.0
// Cast: elements of one type as another. Floats are cut towards zero when they
// become integers, complex numbers lose their imaginary part when they become
// real, bool is "not zero". Truncate cuts mantissas that become shorter instead
// of rounding them. Quantized types are cast as the integers whose bits they have.
#include <algorithm>
#include <bit>
#include <complex>

#include "thalweg/base/simd.h"
#include "thalweg/kernel/op.h"
#include "thalweg/ops/math_ops.h"
#include "thalweg/ops/support/elementwise.h"
#include "thalweg/ops/support/numbers.h"
#include "thalweg/tensor/float8.h"

namespace thalweg {
namespace {

// Half, bfloat16 and float8 go by way of float, int4 and uint4 by way of a byte.
using WideTypes = Types<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, bool,
                        std::complex<float>, std::complex<double>>;

using CastLoop = void (*)(const void* x, void* y, int64_t n);

template <typename To, typename From>
inline To CastElement(From x) {
  if constexpr (kIsComplex<To> && kIsComplex<From>) {
    using Part = typename To::value_type;
    return To(static_cast<Part>(x.real()), static_cast<Part>(x.imag()));
  } else if constexpr (kIsComplex<From>) {
    return static_cast<To>(x.real());
  } else if constexpr (kIsComplex<To>) {
    return To(static_cast<typename To::value_type>(x));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> && sizeof(To) < sizeof(int32_t) &&
                       !std::is_same_v<To, bool>) {
    // By way of an integer that holds it: what does not fit wraps.
    return static_cast<To>(static_cast<int32_t>(x));
  } else {
    return static_cast<To>(x);
  }
}

template <typename From, typename To>
THALWEG_SIMD void HotCast(const void* x, void* y, int64_t n) {
  const From* in = static_cast<const From*>(x);
  To* out = static_cast<To*>(y);
  for (int64_t i = 0; i < n; ++i) out[i] = CastElement<To>(in[i]);
}
template <typename From, typename To>
void PlainCast(const void* x, void* y, int64_t n) {
  const From* in = static_cast<const From*>(x);
  To* out = static_cast<To*>(y);
  for (int64_t i = 0; i < n; ++i) out[i] = CastElement<To>(in[i]);
}

template <typename T>
inline constexpr bool kIsCommon = std::is_same_v<T, float> || std::is_same_v<T, int32_t> ||
                                  std::is_same_v<T, int64_t> || std::is_same_v<T, uint8_t> || std::is_same_v<T, bool>;

template <typename From, typename To>
constexpr CastLoop LoopFor() {
  if constexpr ((kIsCommon<From> && std::is_same_v<To, float>) || (kIsCommon<To> && std::is_same_v<From, float>) ||
                (std::is_same_v<From, double> && std::is_same_v<To, float>)) {
    return HotCast<From, To>;
  } else {
    return PlainCast<From, To>;
  }
}

// nullptr if one of them cannot be cast.
CastLoop SelectCast(DType from, DType to) {
  CastLoop loop = nullptr;
  Dispatch(WideTypes(), from, [&]<typename From>() {
    return Dispatch(WideTypes(), to, [&]<typename To>() {
      // A bool is a byte that is 0 or 1, and compilers know more of bytes.
      using Source = std::conditional_t<std::is_same_v<From, bool> && std::is_arithmetic_v<To>, uint8_t, From>;
      loop = LoopFor<Source, To>();
      return absl::OkStatus();
    });
  }).IgnoreError();
  return loop;
}

// Bits of the mantissa, without the leading one that is not stored.
int MantissaBits(DType t) {
  switch (t) {
    case kDouble:
      return 52;
    case kFloat:
      return 23;
    case kHalf:
      return 10;
    case kBfloat16:
      return 7;
    case kFloat8E4m3fn:
      return kE4m3fn.mantissa_bits;
    case kFloat8E5m2:
      return kE5m2.mantissa_bits;
    default:
      return 0;
  }
}

template <typename T, typename Bits>
void ClearLowBits(const void* x, void* y, int64_t n, int bits) {
  const Bits mask = ~((Bits{1} << bits) - 1);
  const T* in = static_cast<const T*>(x);
  T* out = static_cast<T*>(y);
  for (int64_t i = 0; i < n; ++i) out[i] = std::bit_cast<T>(std::bit_cast<Bits>(in[i]) & mask);
}

// The type whose loops work on elements of type t.
DType WideType(DType t) { return IsHalfPrecision(t) || IsFloat8(t) ? kFloat : StorageType(t); }

// True if elements of type t are not those of its wide type.
bool IsNarrow(DType t) { return IsHalfPrecision(t) || IsFloat8(t) || t == kInt4 || t == kUint4; }

// Elements of a narrow type as those of its wide type.
void Widen(DType from, const void* x, void* y, int64_t n) {
  if (IsHalfPrecision(from)) return HalfToFloat(from, x, static_cast<float*>(y), n);
  const uint8_t* const in = static_cast<const uint8_t*>(x);
  if (IsFloat8(from)) {
    const Float8Format& format = FormatOf(from);
    for (int64_t i = 0; i < n; ++i) static_cast<float*>(y)[i] = Float8ToFloat(format, in[i]);
  } else if (from == kInt4) {  // the upper bits of the byte mean nothing
    for (int64_t i = 0; i < n; ++i) static_cast<int8_t*>(y)[i] = static_cast<int8_t>(in[i] << 4) >> 4;
  } else {
    for (int64_t i = 0; i < n; ++i) static_cast<uint8_t*>(y)[i] = in[i] & 15;
  }
}

// And back.
void Narrow(DType to, const void* x, void* y, int64_t n) {
  if (IsHalfPrecision(to)) return FloatToHalf(to, static_cast<const float*>(x), y, n);
  if (!IsFloat8(to)) return Widen(to, x, y, n);
  const Float8Format& format = FormatOf(to);
  for (int64_t i = 0; i < n; ++i) static_cast<uint8_t*>(y)[i] = ToFloat8(format, static_cast<const float*>(x)[i]);
}

class CastKernel : public Kernel {
 public:
  absl::Status Init(const KernelInit& init) override {
    from_ = RemoveRef(init.node().input_type(0));
    to_ = RemoveRef(init.node().output_type(0));
    ASSIGN_OR_RETURN(const bool truncate, init.Attr<bool>("Truncate"));
    if (from_ == to_) return absl::OkStatus();
    loop_ = SelectCast(WideType(from_), WideType(to_));
    if (loop_ == nullptr) return Unimplemented("Cast ", from_, " to ", to_, " is not supported");
    if (truncate && (from_ == kFloat || from_ == kDouble) && MantissaBits(to_) > 0) {
      cleared_bits_ = std::max(0, MantissaBits(from_) - MantissaBits(to_));
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    if (from_ == to_) {
      context.set_output(0, context.TakeInput(0));
      return absl::OkStatus();
    }
    const Tensor& x = context.input(0);
    ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, x.shape()));
    const char* in = static_cast<const char*>(x.raw());
    char* out = static_cast<char*>(y->raw());
    const size_t in_size = ElementSize(from_), out_size = ElementSize(to_);
    const bool direct = cleared_bits_ == 0 && !IsNarrow(from_) && !IsNarrow(to_);
    context.ParallelFor(x.num_elements(), 0.5, [&](int64_t begin, int64_t end) {
      if (direct) return loop_(in + begin * in_size, out + begin * out_size, end - begin);
      for (int64_t i = begin; i < end; i += kBlock) {
        CastBlock(in + i * in_size, out + i * out_size, std::min(kBlock, end - i));
      }
    });
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kBlock = 256;

  void CastBlock(const void* x, void* y, int64_t n) const {
    double cleared[kBlock];
    float wide_in[kBlock], wide_out[kBlock];
    if (cleared_bits_ > 0) {
      if (from_ == kFloat) ClearLowBits<float, uint32_t>(x, cleared, n, cleared_bits_);
      if (from_ == kDouble) ClearLowBits<double, uint64_t>(x, cleared, n, cleared_bits_);
      x = cleared;
    }
    if (IsNarrow(from_)) {
      Widen(from_, x, wide_in, n);
      x = wide_in;
    }
    if (from_ == kDouble && IsFloat8(to_)) {  // rounded once, not to a float first
      const Float8Format& format = FormatOf(to_);
      for (int64_t i = 0; i < n; ++i) static_cast<uint8_t*>(y)[i] = ToFloat8(format, static_cast<const double*>(x)[i]);
      return;
    }
    loop_(x, IsNarrow(to_) ? wide_out : y, n);
    if (IsNarrow(to_)) Narrow(to_, wide_out, y, n);
  }

  DType from_ = kInvalid, to_ = kInvalid;
  CastLoop loop_ = nullptr;
  int cleared_bits_ = 0;
};

bool IsContinuous(DType t) { return IsFloating(t) || IsComplex(t); }

absl::Status CastGradient(GradientContext& g) {
  const DType from = RemoveRef(g.input(0).dtype()), to = g.output(0).dtype();
  if (IsContinuous(from) && IsContinuous(to)) g.set_dx(0, Cast(g.scope(), g.dy(), from));
  return absl::OkStatus();
}

const OpRegistration kCast = Op("Cast")
                                 .Input("x: SrcT")
                                 .Output("y: DstT")
                                 .Attr("SrcT: type")
                                 .Attr("DstT: type")
                                 .Attr("Truncate: bool = false")
                                 .Shape(shapes::LikeInput0)
                                 .Kernel<CastKernel>()
                                 .Gradient(CastGradient);

}  // namespace

Output Cast(const Scope& s, Output x, DType dtype, const CastOptions& options) {
  return s.Add("Cast", {x}, {{"DstT", dtype}, {"Truncate", options.truncate}});
}

}  // namespace thalweg
