// SPDX-License-Identifier: Apache-2.0
// Arithmetic on every number type, as TensorFlow's kernels do it: integers wrap
// around instead of overflowing, and complex numbers are multiplied by the
// textbook formula.
#pragma once

#include <complex>
#include <cstdint>
#include <type_traits>

namespace thalweg {

template <typename T>
inline constexpr bool kIsComplex = false;
template <typename T>
inline constexpr bool kIsComplex<std::complex<T>> = true;

// The unsigned type in which integers of type T are added and multiplied.
template <typename T>
using Wrapping = std::conditional_t<(sizeof(T) <= sizeof(uint32_t)), uint32_t, uint64_t>;

template <typename T>
inline T WrapAdd(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  } else {
    return a + b;
  }
}

template <typename T>
inline T WrapSub(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
  } else {
    return a - b;
  }
}

template <typename T>
inline T WrapMul(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  } else if constexpr (kIsComplex<T>) {
    return T(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
  } else {
    return a * b;
  }
}

template <typename T>
inline T WrapNeg(T a) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(a));
  } else {
    return -a;
  }
}

template <typename T>
inline T Conjugate(T a) {
  if constexpr (kIsComplex<T>) {
    return std::conj(a);
  } else {
    return a;
  }
}

}  // namespace thalweg
