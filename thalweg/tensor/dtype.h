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

enum class DType : uint8_t {
  kInvalid = 0,
  kFloat = 1,
  kDouble = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kString = 7,
  kComplex64 = 8,
  kInt64 = 9,
  kBool = 10,
  kQint8 = 11,
  kQuint8 = 12,
  kQint32 = 13,
  kBfloat16 = 14,
  kQint16 = 15,
  kQuint16 = 16,
  kUint16 = 17,
  kComplex128 = 18,
  kHalf = 19,
  kResource = 20,
  kVariant = 21,
  kUint32 = 22,
  kUint64 = 23,
  kFloat8E5m2 = 24,
  kFloat8E4m3fn = 25,
  kInt4 = 29,  // in a byte of its own, like kUint4
  kUint4 = 30,
};
using enum DType;  // kFloat, kInt32, ... read well in model code

constexpr bool IsRef(DType t) { return static_cast<int>(t) > 100; }
constexpr DType MakeRef(DType t) { return IsRef(t) ? t : static_cast<DType>(static_cast<int>(t) + 100); }
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
bool IsComplex(DType t);
constexpr bool IsFloat8(DType t) { return t == kFloat8E5m2 || t == kFloat8E4m3fn; }
// The number type whose bits a quantized type has: kInt8 for kQint8; a byte for
// float8, int4 and uint4. Others are their own.
DType StorageType(DType t);

struct ResourceHandle;
class Variant;

// The C++ type of an element, and back.
template <typename T>
struct DTypeOfTrait;
template <typename T>
inline constexpr DType DTypeOf = DTypeOfTrait<std::remove_cv_t<T>>::value;

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

}  // namespace thalweg
