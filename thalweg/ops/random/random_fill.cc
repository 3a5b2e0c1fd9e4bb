// SPDX-License-Identifier: Apache-2.0
#include "thalweg/ops/random/random_fill.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include "thalweg/base/simd.h"
#include "thalweg/base/status.h"

namespace thalweg {
namespace {

// Element types by how many of the 32-bit numbers an element takes.
template <typename T>
constexpr int kNumbersPerElement = sizeof(T) == 8 ? 2 : 1;

struct Uniform {
  static constexpr double kNanos = 1;
  template <typename T>
  THALWEG_SIMD static void Convert(const uint32_t* in, T* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<T, double>) {
        out[i] = UnitDouble(in[2 * i], in[2 * i + 1]);
      } else if constexpr (std::is_same_v<T, float>) {
        out[i] = UnitFloat(in[i]);
      } else if constexpr (std::is_same_v<T, Half>) {
        out[i] = Half(Half::FromBits(static_cast<uint16_t>((in[i] & 0x3ff) | 15 << 10)) - 1.0f);
      } else {
        out[i] = BFloat16(BFloat16::FromBits(static_cast<uint16_t>((in[i] & 0x7f) | 127 << 7)) - 1.0f);
      }
    }
  }
};

struct Normal {
  static constexpr double kNanos = 12;
  // REQUIRES: n is even.
  template <typename T>
  static void Convert(const uint32_t* in, T* out, int64_t n) {
    for (int64_t i = 0; i < n; i += 2) {
      if constexpr (std::is_same_v<T, double>) {
        BoxMuller(in[2 * i], in[2 * i + 1], in[2 * i + 2], in[2 * i + 3], &out[i], &out[i + 1]);
      } else {
        float pair[2];
        BoxMuller(in[i], in[i + 1], &pair[0], &pair[1]);
        out[i] = static_cast<T>(pair[0]);
        out[i + 1] = static_cast<T>(pair[1]);
      }
    }
  }
};

// Fills [begin, end) blocks of four numbers, through a piece of stack that the
// cache keeps.
template <typename T, typename Convert>
void FillBlocks(Philox generator, T* data, int64_t n, int64_t begin, int64_t end, const Convert& convert) {
  constexpr int64_t kBlocks = 256;
  constexpr int64_t kPerBlock = 4 / kNumbersPerElement<T>;
  generator.Skip(static_cast<uint64_t>(begin));
  uint32_t numbers[4 * kBlocks];
  for (int64_t block = begin; block < end; block += kBlocks) {
    const int64_t blocks = std::min(kBlocks, end - block);
    const int64_t whole = std::min(blocks, n / kPerBlock - block);
    generator.Fill(blocks, numbers);
    T* const out = data + block * kPerBlock;
    convert(numbers, out, whole * kPerBlock);
    if (whole < blocks) {  // the end, inside a block
      T last[kPerBlock];
      convert(numbers + 4 * whole, last, kPerBlock);
      std::copy(last, last + (n - (block + whole) * kPerBlock), out + whole * kPerBlock);
    }
  }
}

template <typename T, typename Convert>
void FillInParallel(KernelContext& context, const Philox& generator, Tensor& out, double nanos,
                    const Convert& convert) {
  constexpr int64_t kPerBlock = 4 / kNumbersPerElement<T>;
  T* const data = out.mutable_data<T>();
  const int64_t n = out.num_elements();
  context.ParallelFor((n + kPerBlock - 1) / kPerBlock, nanos * kPerBlock,
                      [&](int64_t begin, int64_t end) { FillBlocks(generator, data, n, begin, end, convert); });
}

// TensorFlow reserves 256 numbers per element for each group of four floats (or two doubles), so
// that rejection sampling can draw as often as needed.
template <typename T>
void FillTruncatedGroups(const Philox& generator, T* data, int64_t n, int64_t begin, int64_t end) {
  constexpr int64_t kGroup = 4 / kNumbersPerElement<T>;
  constexpr int64_t kBlocksPerGroup = kGroup * 256 / 4;
  for (int64_t group = begin; group < end; ++group) {
    Philox own = generator;
    own.Skip(static_cast<uint64_t>(group * kBlocksPerGroup));
    PhiloxSingle next(own);
    const int64_t first = group * kGroup, count = std::min(kGroup, n - first);
    for (int64_t filled = 0; filled < count;) {
      using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
      C pair[2];
      const uint32_t x0 = next(), x1 = next();
      if constexpr (std::is_same_v<T, double>) {
        const uint32_t x2 = next(), x3 = next();
        BoxMuller(x0, x1, x2, x3, &pair[0], &pair[1]);
      } else {
        BoxMuller(x0, x1, &pair[0], &pair[1]);
      }
      for (const C value : pair) {
        if (std::abs(value) < 2 && filled < count) data[first + filled++] = static_cast<T>(value);
      }
    }
  }
}

// The element that one or two numbers make.
template <typename T>
inline T Bits(const uint32_t* in, int64_t i) {
  if constexpr (sizeof(T) == 8) {
    return static_cast<T>(in[2 * i] | static_cast<uint64_t>(in[2 * i + 1]) << 32);
  } else {
    return static_cast<T>(in[i]);
  }
}

using IntTypes = Types<int32_t, int64_t, uint32_t, uint64_t>;

uint64_t SeedAt(const Tensor& seed, int i) {
  switch (seed.dtype()) {
    case kInt32:
      return static_cast<uint64_t>(static_cast<int64_t>(seed.data<int32_t>()[i]));
    case kUint32:
      return seed.data<uint32_t>()[i];
    case kUint64:
      return seed.data<uint64_t>()[i];
    default:
      return static_cast<uint64_t>(seed.data<int64_t>()[i]);
  }
}

template <typename T>
absl::StatusOr<T> Bound(const Tensor& t, const char* name) {
  if (!t.shape().is_scalar()) return InvalidArgument(name, " must be 0-D, got shape ", t.shape());
  return t.scalar<T>();
}

}  // namespace

absl::Status FillUniform(KernelContext& context, const Philox& generator, Tensor& out) {
  return Dispatch(FloatTypes(), out.dtype(), [&]<typename T>() {
    FillInParallel<T>(context, generator, out, Uniform::kNanos, Uniform::Convert<T>);
    return absl::OkStatus();
  });
}

absl::Status FillNormal(KernelContext& context, const Philox& generator, Tensor& out) {
  return Dispatch(FloatTypes(), out.dtype(), [&]<typename T>() {
    FillInParallel<T>(context, generator, out, Normal::kNanos, Normal::Convert<T>);
    return absl::OkStatus();
  });
}

absl::Status FillTruncatedNormal(KernelContext& context, const Philox& generator, Tensor& out) {
  return Dispatch(FloatTypes(), out.dtype(), [&]<typename T>() {
    constexpr int64_t kGroup = 4 / kNumbersPerElement<T>;
    T* const data = out.mutable_data<T>();
    const int64_t n = out.num_elements();
    context.ParallelFor((n + kGroup - 1) / kGroup, 20.0 * kGroup,
                        [&](int64_t begin, int64_t end) { FillTruncatedGroups(generator, data, n, begin, end); });
    return absl::OkStatus();
  });
}

absl::Status FillIntegers(KernelContext& context, const Philox& generator, const Tensor& minval, const Tensor& maxval,
                          Tensor& out) {
  return Dispatch(IntTypes(), out.dtype(), [&]<typename T>() -> absl::Status {
    using U = std::make_unsigned_t<T>;
    if (minval.dtype() != out.dtype() || maxval.dtype() != out.dtype()) {
      return InvalidArgument("minval and maxval must be of type ", out.dtype(), ", got ", minval.dtype(), " and ",
                             maxval.dtype());
    }
    ASSIGN_OR_RETURN(const T low, Bound<T>(minval, "minval"));
    ASSIGN_OR_RETURN(const T high, Bound<T>(maxval, "maxval"));
    if (out.num_elements() == 0) return absl::OkStatus();
    if (low >= high) return InvalidArgument("Need minval < maxval, got ", low, " >= ", high);
    const U range = static_cast<U>(high) - static_cast<U>(low);
    FillInParallel<T>(context, generator, out, 4, [low, range](const uint32_t* in, T* to, int64_t n) {
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(static_cast<U>(low) + Bits<U>(in, i) % range);
    });
    return absl::OkStatus();
  });
}

absl::Status FillFullIntegers(KernelContext& context, const Philox& generator, Tensor& out) {
  return Dispatch(IntTypes(), out.dtype(), [&]<typename T>() {
    FillInParallel<T>(context, generator, out, 1, [](const uint32_t* in, T* to, int64_t n) {
      for (int64_t i = 0; i < n; ++i) to[i] = Bits<T>(in, i);
    });
    return absl::OkStatus();
  });
}

// The seed is scrambled by one round trip through the generator itself, so that
// any part of it may carry the entropy.
absl::StatusOr<Philox> PhiloxFromSeed(const Tensor& seed) {
  if (!seed.shape().is_vector() || seed.dim(0) != 2)
    return InvalidArgument("seed must have shape [2], not ", seed.shape());
  const uint64_t seed0 = SeedAt(seed, 0), seed1 = SeedAt(seed, 1);
  const Philox::Block mix = Philox::At({static_cast<uint32_t>(seed0), static_cast<uint32_t>(seed0 >> 32),
                                        static_cast<uint32_t>(seed1), static_cast<uint32_t>(seed1 >> 32)},
                                       {0x3ec8f720, 0x02461e29});
  return Philox({0, 0, mix[2], mix[3]}, {mix[0], mix[1]});
}

Philox PhiloxFromWords(uint64_t low, uint64_t high, uint64_t key) {
  return Philox({static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
                 static_cast<uint32_t>(high >> 32)},
                {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
}

absl::StatusOr<Philox> PhiloxFromKeyCounter(const Tensor& key, const Tensor& counter, const Tensor& alg) {
  if (!alg.shape().is_scalar()) return InvalidArgument("algorithm must be of shape [], not ", alg.shape());
  if (const int32_t a = alg.scalar<int32_t>(); a != kPhiloxAlgorithm && a != kAutoSelectAlgorithm) {
    return InvalidArgument("Unsupported algorithm id: ", a);
  }
  if (!key.shape().is_vector() || key.dim(0) != 1) return InvalidArgument("key must have shape [1], not ", key.shape());
  if (!counter.shape().is_vector() || counter.dim(0) < 2) {
    return InvalidArgument("counter must be a vector with length at least 2 for the Philox algorithm, not ",
                           counter.shape());
  }
  return PhiloxFromWords(counter.data<uint64_t>()[0], counter.data<uint64_t>()[1], key.data<uint64_t>()[0]);
}

absl::StatusOr<Shape> RandomShape(const Tensor& sizes) {
  if (!sizes.shape().is_vector() || (sizes.dtype() != kInt32 && sizes.dtype() != kInt64)) {
    return InvalidArgument("shape must be a vector of {int32,int64}, got shape ", sizes.shape());
  }
  Dims dims;
  for (int64_t i = 0; i < sizes.num_elements(); ++i) {
    dims.push_back(sizes.dtype() == kInt32 ? sizes.data<int32_t>()[i] : sizes.data<int64_t>()[i]);
    if (dims.back() < 0) return InvalidArgument("Dimension ", dims.back(), " must be >= 0");
  }
  return Shape::Make(dims);
}

}  // namespace thalweg
