// SPDX-License-Identifier: Apache-2.0
// Element types, numbered as in TensorFlow's DataType. A *reference* type
// (base + 100) is the type of an edge that carries a variable rather than a
// value.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "thalweg/base/status.h"
#include "thalweg/tensor/float16.h"

namespace thalweg {

// Names are those of TensorFlow's types: kFloat is DT_FLOAT.
enum class DType : uint8_t {
  kInvalid = 0,        // none
  kFloat = 1,          // float
  kDouble = 2,         // double
  kInt32 = 3,          // int32_t
  kUint8 = 4,          // uint8_t
  kInt16 = 5,          // int16_t
  kInt8 = 6,           // int8_t
  kString = 7,         // std::string
  kComplex64 = 8,      // std::complex<float>
  kInt64 = 9,          // int64_t
  kBool = 10,          // bool
  kQint8 = 11,         // quantized, 8 bits
  kQuint8 = 12,        // quantized, 8 bits, unsigned
  kQint32 = 13,        // quantized, 32 bits
  kBfloat16 = 14,      // BFloat16
  kQint16 = 15,        // quantized, 16 bits
  kQuint16 = 16,       // quantized, 16 bits, unsigned
  kUint16 = 17,        // uint16_t
  kComplex128 = 18,    // std::complex<double>
  kHalf = 19,          // Half
  kResource = 20,      // a handle to a variable, queue, table, ...
  kVariant = 21,       // an object such as a dataset or a list of tensors
  kUint32 = 22,        // uint32_t
  kUint64 = 23,        // uint64_t
  kFloat8E5m2 = 24,    // 8 bits: 5 of exponent, 2 of mantissa
  kFloat8E4m3fn = 25,  // 8 bits: 4 of exponent, 3 of mantissa, no infinities
  kInt4 = 29,          // 4 bits, stored in a byte
  kUint4 = 30,         // 4 bits, unsigned, stored in a byte
};
using enum DType;  // kFloat, kInt32, ... read well in model code

// True for the type of an edge that carries a variable.
constexpr bool IsRef(DType t) { return static_cast<int>(t) > 100; }
// kFloat becomes the type of a reference to a float variable.
constexpr DType MakeRef(DType t) { return IsRef(t) ? t : static_cast<DType>(static_cast<int>(t) + 100); }
// The opposite of MakeRef; other types stay as they are.
constexpr DType RemoveRef(DType t) { return IsRef(t) ? static_cast<DType>(static_cast<int>(t) - 100) : t; }

// TensorFlow's name: "float", "int32", "string", ..., "float_ref".
std::string ToString(DType t);
// From such a name, or "float32", "float64"; INVALID_ARGUMENT if there is no
// such type.
absl::StatusOr<DType> DTypeFromName(absl::string_view name);
// True for every enumerator but kInvalid, and for their ref types.
bool IsKnown(DType t);

// Bytes of an element in memory. Strings, resources and variants are C++
// objects: 0.
size_t ElementSize(DType t);
bool IsFloating(DType t);  // half, bfloat16, float, double
bool IsInteger(DType t);   // (u)int8..64
bool IsComplex(DType t);   // complex64, complex128
// True for kFloat8E5m2 and kFloat8E4m3fn.
constexpr bool IsFloat8(DType t) { return t == kFloat8E5m2 || t == kFloat8E4m3fn; }
// The number type whose bits a quantized type has: kInt8 for kQint8; a byte for float8,
// int4 and uint4. Others are their own.
DType StorageType(DType t);

/// @cond INTERNAL
struct ResourceHandle;
class Variant;

template <typename T>
struct DTypeOfTrait;
/// @endcond

// The DType of a C++ type: DTypeOf<float> is kFloat.
template <typename T>
inline constexpr DType DTypeOf = DTypeOfTrait<std::remove_cv_t<T>>::value;

/// @cond INTERNAL
#define THALWEG_DTYPE_(cpp, enumerator)        \
  template <>                                  \
  struct DTypeOfTrait<cpp> {                   \
    static constexpr DType value = enumerator; \
  };
THALWEG_DTYPE_(float, kFloat)
THALWEG_DTYPE_(double, kDouble)
THALWEG_DTYPE_(int32_t, kInt32)
THALWEG_DTYPE_(uint8_t, kUint8)
THALWEG_DTYPE_(int16_t, kInt16)
THALWEG_DTYPE_(int8_t, kInt8)
THALWEG_DTYPE_(std::string, kString)
THALWEG_DTYPE_(std::complex<float>, kComplex64)
THALWEG_DTYPE_(int64_t, kInt64)
THALWEG_DTYPE_(bool, kBool)
THALWEG_DTYPE_(BFloat16, kBfloat16)
THALWEG_DTYPE_(uint16_t, kUint16)
THALWEG_DTYPE_(std::complex<double>, kComplex128)
THALWEG_DTYPE_(Half, kHalf)
THALWEG_DTYPE_(ResourceHandle, kResource)
THALWEG_DTYPE_(Variant, kVariant)
THALWEG_DTYPE_(uint32_t, kUint32)
THALWEG_DTYPE_(uint64_t, kUint64)
#undef THALWEG_DTYPE_

// Lists of types, for dispatch.
template <typename... Ts>
struct Types {};
using FloatTypes = Types<float, double, Half, BFloat16>;
using IntegerTypes = Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
using ComplexTypes = Types<std::complex<float>, std::complex<double>>;
using RealTypes =
    Types<float, double, Half, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
using NumberTypes = Types<float, double, Half, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                          uint64_t, std::complex<float>, std::complex<double>>;
using PodTypes = Types<float, double, Half, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                       uint64_t, std::complex<float>, std::complex<double>, bool>;
using IndexTypes = Types<int32_t, int64_t>;
using AllTypes = Types<float, double, Half, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                       uint64_t, std::complex<float>, std::complex<double>, bool, std::string, ResourceHandle, Variant>;

// UNIMPLEMENTED, with the name of the type.
absl::Status NoKernelFor(DType dtype);

// Runs `f` for the C++ type of `dtype`, if it is one of `Ts`:
//
//   return Dispatch(FloatTypes(), x.dtype(), [&]<typename T>() { return Softmax<T>(x, y); });
//
// NoKernelFor it if it is not.
template <typename... Ts, typename F>
absl::Status Dispatch(Types<Ts...>, DType dtype, F&& f) {
  // By pointer, so that the types are compiled one by one: as one function, all
  // of them inlined, they take the compiler twice as long.
  absl::Status (*call)(std::remove_reference_t<F>&) = nullptr;
  ((dtype == DTypeOf<Ts> ? (
                               call = [](std::remove_reference_t<F>& g) { return g.template operator()<Ts>(); }, true)
                         : false) ||
   ...);
  return call != nullptr ? call(f) : NoKernelFor(dtype);
}
/// @endcond

}  // namespace thalweg
