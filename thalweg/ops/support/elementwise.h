// SPDX-License-Identifier: Apache-2.0
// Shared by elementwise ops: loops over elements, and the kernels that call them. The loops are typed
// and independent of shapes. The kernels handle shapes and broadcasting and are independent of types.
//
//   struct NegFn {
//     template <typename T>
//     T operator()(T x) const { return -x; }
//   };
//   Op("Neg")....Kernel<UnaryKernel>(SelectUnary<NegFn, Types<float, double>>)
//
// Half and BFloat16 are converted to float and back in blocks. Functors never see them, and a list of
// types that contains float includes them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "thalweg/base/simd.h"
#include "thalweg/kernel/op.h"
#include "thalweg/tensor/dtype.h"

namespace thalweg {

// Types whose loops are compiled for several instruction sets. Other types are rarely used.
template <typename T>
inline constexpr bool kIsHot =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>;

// ---- y = f(x) ----

struct UnaryFn {
  // Writes n elements of y; y may be x.
  void (*loop)(const void* x, void* y, int64_t n) = nullptr;
  float nanos = 1;  // estimated time per element
};

template <typename T, typename F>
THALWEG_SIMD void HotUnaryLoop(const void* x, void* y, int64_t n) {
  using R = std::invoke_result_t<F, T>;
  const T* in = static_cast<const T*>(x);
  R* out = static_cast<R*>(y);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = F()(in[i]);
}

template <typename T, typename F>
void PlainUnaryLoop(const void* x, void* y, int64_t n) {
  using R = std::invoke_result_t<F, T>;
  const T* in = static_cast<const T*>(x);
  R* out = static_cast<R*>(y);
  for (int64_t i = 0; i < n; ++i) out[i] = F()(in[i]);
}

template <typename T, typename F>
UnaryFn MakeUnary(float nanos) {
  if constexpr (kIsHot<T>) {
    return {HotUnaryLoop<T, F>, nanos};
  } else {
    return {PlainUnaryLoop<T, F>, nanos};
  }
}

// The loop of F for `dtype`, or none. F::kNanos, if it exists, is the cost per element.
template <typename F, typename... Ts>
UnaryFn SelectUnaryOf(Types<Ts...>, DType dtype) {
  float nanos = 0.5f;
  if constexpr (requires { F::kNanos; }) nanos = F::kNanos;
  UnaryFn fn;
  ((dtype == DTypeOf<Ts> ? (fn = MakeUnary<Ts, F>(nanos), true) : false) || ...);
  return fn;
}
template <typename F, typename List>
UnaryFn SelectUnary(DType dtype) {
  return SelectUnaryOf<F>(List(), dtype);
}

class UnaryKernel : public Kernel {
 public:
  explicit UnaryKernel(UnaryFn (*select)(DType)) : select_(select) {}
  absl::Status Init(const KernelInit& init) override;
  absl::Status Compute(KernelContext& context) override;

 private:
  UnaryFn (*const select_)(DType);
  UnaryFn fn_;
  DType in_ = kInvalid, out_ = kInvalid;
};

// ---- z = f(x, y), with broadcasting ----

// A matrix of results. The strides are those of the operands' rows, in elements. The rows of z are
// adjacent.
struct BinaryRows {
  const void* x = nullptr;
  const void* y = nullptr;
  void* z = nullptr;
  int64_t rows = 1;
  int64_t columns = 0;
  int64_t x_stride = 0;
  int64_t y_stride = 0;
};

// In a row, both operands have an element per column, or one of them has a single element.
enum class BinaryForm { kBoth, kScalarX, kScalarY };

struct BinaryFn {
  // By form. Return false if an element was invalid.
  bool (*loops[3])(const BinaryRows&) = {};
  // For single elements: most tensors of a step are scalars.
  bool (*one)(const void* x, const void* y, void* z) = nullptr;
  float nanos = 0.5f;
  const char* failure = nullptr;  // the error message if a loop returns false
  absl::StatusCode failure_code = absl::StatusCode::kInvalidArgument;
};

// F(x, y) or, for functors that can fail, F(x, y, failed).
template <typename F, typename T>
inline auto CallBinary(const T& x, const T& y, bool& failed) {
  if constexpr (std::is_invocable_v<F, T, T, bool&>) {
    return F()(x, y, failed);
  } else {
    return F()(x, y);
  }
}

template <typename T, typename F, BinaryForm form>
THALWEG_SIMD bool HotBinaryLoop(const BinaryRows& a) {
  bool failed = false;
  using R = decltype(CallBinary<F>(std::declval<T>(), std::declval<T>(), failed));
  const T* x = static_cast<const T*>(a.x);
  const T* y = static_cast<const T*>(a.y);
  R* z = static_cast<R*>(a.z);
  const int64_t n = a.columns;
  for (int64_t r = 0; r < a.rows; ++r, x += a.x_stride, y += a.y_stride, z += n) {
    if constexpr (form == BinaryForm::kBoth) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) z[i] = CallBinary<F>(x[i], y[i], failed);
    } else if constexpr (form == BinaryForm::kScalarX) {
      const T x0 = x[0];
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) z[i] = CallBinary<F>(x0, y[i], failed);
    } else {
      const T y0 = y[0];
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) z[i] = CallBinary<F>(x[i], y0, failed);
    }
  }
  return !failed;
}

// All three forms in one loop, for rarely used types, to save code.
template <typename T, typename F>
[[gnu::noinline, gnu::noclone]] bool PlainBinaryRows(const BinaryRows& a, int64_t x_step, int64_t y_step) {
  bool failed = false;
  using R = decltype(CallBinary<F>(std::declval<T>(), std::declval<T>(), failed));
  const T* x = static_cast<const T*>(a.x);
  const T* y = static_cast<const T*>(a.y);
  R* z = static_cast<R*>(a.z);
  for (int64_t r = 0; r < a.rows; ++r, x += a.x_stride, y += a.y_stride, z += a.columns) {
    // A repeated operand can share memory with the result only if there is one column.
    for (int64_t i = 0; i < a.columns; ++i) z[i] = CallBinary<F>(x[i * x_step], y[i * y_step], failed);
  }
  return !failed;
}

template <typename T, typename F>
bool BinaryOne(const void* x, const void* y, void* z) {
  bool failed = false;
  using R = decltype(CallBinary<F>(std::declval<T>(), std::declval<T>(), failed));
  *static_cast<R*>(z) = CallBinary<F>(*static_cast<const T*>(x), *static_cast<const T*>(y), failed);
  return !failed;
}

template <typename T, typename F>
BinaryFn MakeBinary() {
  if constexpr (kIsHot<T>) {
    return {{HotBinaryLoop<T, F, BinaryForm::kBoth>, HotBinaryLoop<T, F, BinaryForm::kScalarX>,
             HotBinaryLoop<T, F, BinaryForm::kScalarY>},
            BinaryOne<T, F>};
  } else {
    return {{[](const BinaryRows& a) { return PlainBinaryRows<T, F>(a, 1, 1); },
             [](const BinaryRows& a) { return PlainBinaryRows<T, F>(a, 0, 1); },
             [](const BinaryRows& a) { return PlainBinaryRows<T, F>(a, 1, 0); }}};
  }
}

// The loops of F for `dtype`, or none. F::kNanos is the cost per element, F::kFailure the error message
// for invalid elements.
template <typename F, typename... Ts>
BinaryFn SelectBinaryOf(Types<Ts...>, DType dtype) {
  BinaryFn fn;
  ((dtype == DTypeOf<Ts> ? (fn = MakeBinary<Ts, F>(), true) : false) || ...);
  if constexpr (requires { F::kNanos; }) fn.nanos = F::kNanos;
  if constexpr (requires { F::kFailure; }) fn.failure = F::kFailure;
  if constexpr (requires { F::kFailureCode; }) fn.failure_code = F::kFailureCode;
  return fn;
}
template <typename F, typename List>
BinaryFn SelectBinary(DType dtype) {
  return SelectBinaryOf<F>(List(), dtype);
}

class BinaryKernel : public Kernel {
 public:
  explicit BinaryKernel(BinaryFn (*select)(DType)) : select_(select) {}
  absl::Status Init(const KernelInit& init) override;
  absl::Status Compute(KernelContext& context) override;

 protected:
  absl::Status ComputeFlat(KernelContext& context, BinaryForm form, const Tensor& x, const Tensor& y, Tensor* z) const;

 private:
  absl::Status Failure() const { return absl::Status(fn_.failure_code, fn_.failure); }
  bool Run(const BinaryRows& rows, BinaryForm form) const;
  bool RunAsFloat(const BinaryRows& rows, BinaryForm form) const;
  absl::Status ComputeBroadcast(KernelContext& context, const Tensor& x, const Tensor& y) const;

  BinaryFn (*const select_)(DType);
  BinaryFn fn_;
  DType in_ = kInvalid, out_ = kInvalid;
  size_t in_size_ = 0, out_size_ = 0;
  bool shape_error_ = true;  // incompatible shapes are an error; false: such operands are unequal
};

// For operands that must have the same shape, such as those of gradient helpers.
class SameShapeBinaryKernel : public BinaryKernel {
 public:
  using BinaryKernel::BinaryKernel;
  absl::Status Compute(KernelContext& context) override;
};

// ---- shared by registrations ----

using Floats = Types<float, double>;
using FloatsAndComplex = Types<float, double, std::complex<float>, std::complex<double>>;
using Reals = Types<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
using Numbers = Types<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
                      std::complex<float>, std::complex<double>>;

inline constexpr char kFloatsAndComplex[] = "bfloat16, half, float, double, complex64, complex128";

// y = f(x) with one type T among `types`.
Op UnaryOp(absl::string_view name, absl::string_view types = kFloatsAndComplex);
// z = f(x, y), the same.
Op BinaryOp(absl::string_view name, absl::string_view types);
// z = f(y, dy): the derivative of a unary op, from its result.
Op GradientHelperOp(absl::string_view name);

// Sets the gradients of a binary op, summed over the broadcast dimensions.
absl::Status SetSums(GradientContext& g, Output dx, Output dy);

// ---- half precision ----

inline bool IsHalfPrecision(DType t) { return t == kHalf || t == kBfloat16; }
// REQUIRES: IsHalfPrecision(type).
void HalfToFloat(DType from, const void* x, float* y, int64_t n);
void FloatToHalf(DType to, const float* x, void* y, int64_t n);

}  // namespace thalweg
