// Filling tensors with random numbers, exactly as TensorFlow's CPU kernels do:
// which numbers of the sequence make which element, and how.
#pragma once

#include <bit>
#include <cstdint>

#include "absl/status/statusor.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/kernel/philox.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Every element of `out`, from `generator` on. Types: half, bfloat16, float and
// double. Large tensors are filled by several threads; the result is the same.
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

// The generator of a stateless op, from its seed of two integers.
absl::StatusOr<Philox> PhiloxFromSeed(const Tensor& seed);

// The shape that a vector of sizes asks for.
absl::StatusOr<Shape> RandomShape(const Tensor& sizes);

}  // namespace thalweg
