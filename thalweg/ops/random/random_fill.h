// SPDX-License-Identifier: Apache-2.0
// Fills tensors with random numbers exactly as TensorFlow's CPU kernels do: the same numbers
// of the sequence produce the same elements.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "absl/status/statusor.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/kernel/philox.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Fill `out` with numbers from `generator`. Types: half, bfloat16, float and double. Several
// threads fill large tensors, with the same result.
absl::Status FillUniform(KernelContext& context, const Philox& generator, Tensor& out);          // [0, 1)
absl::Status FillNormal(KernelContext& context, const Philox& generator, Tensor& out);           // mean 0, deviation 1
absl::Status FillTruncatedNormal(KernelContext& context, const Philox& generator, Tensor& out);  // within (-2, 2)

// Integers in [minval, maxval). Types: (u)int32, (u)int64. INVALID_ARGUMENT
// unless the bounds are scalars, in order. Nothing is checked if `out` is empty.
absl::Status FillIntegers(KernelContext& context, const Philox& generator, const Tensor& minval, const Tensor& maxval,
                          Tensor& out);
// Any integer of the type.
absl::Status FillFullIntegers(KernelContext& context, const Philox& generator, Tensor& out);

// A number in [0, 1) from 52 random bits.
inline double UnitDouble(uint32_t high, uint32_t low) {
  const uint64_t mantissa = static_cast<uint64_t>(high & 0xfffff) << 32 | low;
  return std::bit_cast<double>(mantissa | uint64_t{1023} << 52) - 1.0;
}

// Random bits as the mantissa of a number in [1, 2), less 1.
inline float UnitFloat(uint32_t bits) { return std::bit_cast<float>((bits & 0x7fffff) | 127u << 23) - 1.0f; }

// Two normal numbers from two uniform ones (Box and Muller 1958).
inline void BoxMuller(uint32_t x0, uint32_t x1, float* f0, float* f1) {
  const float u1 = std::max(UnitFloat(x0), 1.0e-7f);
  // The product is of doubles, as in TensorFlow.
  const float v1 = static_cast<float>(2.0f * std::numbers::pi * static_cast<double>(UnitFloat(x1)));
  const float u2 = std::sqrt(-2.0f * std::log(u1));
  *f0 = std::sin(v1) * u2;
  *f1 = std::cos(v1) * u2;
}
inline void BoxMuller(uint32_t x0, uint32_t x1, uint32_t x2, uint32_t x3, double* d0, double* d1) {
  const double u1 = std::max(UnitDouble(x0, x1), 1.0e-7);
  const double v1 = 2 * std::numbers::pi * UnitDouble(x2, x3);
  const double u2 = std::sqrt(-2.0 * std::log(u1));
  *d0 = std::sin(v1) * u2;
  *d1 = std::cos(v1) * u2;
}

// The generator of a stateless op, from its seed of two integers.
absl::StatusOr<Philox> PhiloxFromSeed(const Tensor& seed);

// TensorFlow's numbers for algorithms. With kAutoSelectAlgorithm the device chooses.
inline constexpr int32_t kPhiloxAlgorithm = 1, kThreeFryAlgorithm = 2, kAutoSelectAlgorithm = 3;
// From the inputs of a stateless op's second version: key [1], counter [>= 2], alg.
absl::StatusOr<Philox> PhiloxFromKeyCounter(const Tensor& key, const Tensor& counter, const Tensor& alg);
// From a counter of two words and a key.
Philox PhiloxFromWords(uint64_t low, uint64_t high, uint64_t key);

// The shape given by a vector of sizes.
absl::StatusOr<Shape> RandomShape(const Tensor& sizes);

}  // namespace thalweg
