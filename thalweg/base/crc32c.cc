// SPDX-License-Identifier: Apache-2.0
// A CRC is the remainder of a polynomial over GF(2). Bits are reflected: bit 31
// of a word is the coefficient of x^0, bit 0 that of x^31, and a byte that
// follows multiplies what came before by x^8. Two things come from that:
//
//  - the remainder is linear, so a table for each byte of a word gives the
//    remainder of the word (ExtendCrc32cPortable);
//  - crc(AB) = crc(A) * x^(8|B|) + crc(B), so three adjacent blocks can be
//    computed independently and joined with two multiplications by a constant
//    (ExtendCrc32cSse42): the crc32 instruction has a latency of 3 cycles but
//    starts one every cycle.
#include "thalweg/base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace thalweg {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;

constexpr uint32_t TimesX(uint32_t a) { return (a >> 1) ^ (a & 1 ? kPolynomial : 0); }

constexpr uint32_t Multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = uint32_t{1} << 31; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = TimesX(b);
  }
  return product;
}

// x^(8 * bytes), by repeated squaring.
constexpr uint32_t PowerOfX(uint64_t bytes) {
  uint32_t result = uint32_t{1} << 31;
  uint32_t square = uint32_t{1} << 23;  // x^8
  for (; bytes != 0; bytes >>= 1) {
    if (bytes & 1) result = Multiply(result, square);
    square = Multiply(square, square);
  }
  return result;
}

// [k][b]: the contribution of byte b at position k of a word.
template <int kBytes>
using ByteTables = std::array<std::array<uint32_t, 256>, kBytes>;

// Multiplication by x^(8 * bytes), as a table for each byte of the factor.
constexpr ByteTables<4> MakeShiftTables(uint64_t bytes) {
  ByteTables<4> tables{};
  const uint32_t power = PowerOfX(bytes);
  for (int k = 0; k < 4; ++k) {
    for (uint32_t bit = 1; bit < 256; bit <<= 1) {
      const uint32_t image = Multiply(bit << (8 * k), power);
      for (uint32_t low = 0; low < bit; ++low) tables[k][bit | low] = tables[k][low] ^ image;
    }
  }
  return tables;
}

// [k][b]: the remainder of byte b followed by 7 - k zero bytes.
constexpr ByteTables<8> MakeSliceTables() {
  ByteTables<8> tables{};
  for (int k = 0; k < 8; ++k) tables[k] = MakeShiftTables(8 - k)[0];
  return tables;
}

constexpr ByteTables<8> kSlices = MakeSliceTables();

uint64_t Load64(const uint8_t* p) {
  uint64_t word;
  std::memcpy(&word, p, sizeof(word));
  if constexpr (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) word = __builtin_bswap64(word);
  return word;
}

#if defined(__x86_64__)

constexpr size_t kLongBlock = 8192, kShortBlock = 256;
constexpr ByteTables<4> kLongShift = MakeShiftTables(kLongBlock);
constexpr ByteTables<4> kShortShift = MakeShiftTables(kShortBlock);

uint64_t Shift(const ByteTables<4>& tables, uint64_t crc) {
  return tables[0][crc & 0xff] ^ tables[1][crc >> 8 & 0xff] ^ tables[2][crc >> 16 & 0xff] ^ tables[3][crc >> 24];
}

// Takes as many triples of blocks of `block` bytes as there are.
[[gnu::target("sse4.2")]] uint64_t TakeTriples(uint64_t crc, size_t block, const ByteTables<4>& shift,
                                               const uint8_t*& p, const uint8_t* end) {
  while (static_cast<size_t>(end - p) >= 3 * block) {
    uint64_t second = 0, third = 0;
    for (const uint8_t* const block_end = p + block; p < block_end; p += 8) {
      crc = _mm_crc32_u64(crc, Load64(p));
      second = _mm_crc32_u64(second, Load64(p + block));
      third = _mm_crc32_u64(third, Load64(p + 2 * block));
    }
    crc = Shift(shift, Shift(shift, crc) ^ second) ^ third;
    p += 2 * block;
  }
  return crc;
}

[[gnu::target("sse4.2")]] uint32_t ExtendCrc32cSse42(uint32_t start, const void* data, size_t n) {
  const uint8_t* p = static_cast<const uint8_t*>(data);
  const uint8_t* const end = p + n;
  uint64_t crc = ~start;
  crc = TakeTriples(crc, kLongBlock, kLongShift, p, end);
  crc = TakeTriples(crc, kShortBlock, kShortShift, p, end);
  for (; end - p >= 8; p += 8) crc = _mm_crc32_u64(crc, Load64(p));
  for (; p < end; ++p) crc = _mm_crc32_u8(static_cast<uint32_t>(crc), *p);
  return ~static_cast<uint32_t>(crc);
}

#endif  // __x86_64__

}  // namespace

namespace internal {

uint32_t ExtendCrc32cPortable(uint32_t start, const void* data, size_t n) {
  const uint8_t* p = static_cast<const uint8_t*>(data);
  const uint8_t* const end = p + n;
  uint32_t crc = ~start;
  for (; end - p >= 8; p += 8) {
    const uint64_t word = Load64(p) ^ crc;
    crc = 0;
    for (int k = 0; k < 8; ++k) crc ^= kSlices[k][word >> (8 * k) & 0xff];
  }
  for (; p < end; ++p) crc = kSlices[7][(crc ^ *p) & 0xff] ^ crc >> 8;
  return ~crc;
}

}  // namespace internal

uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t n) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return ExtendCrc32cSse42(crc, data, n);
#endif
  return internal::ExtendCrc32cPortable(crc, data, n);
}

}  // namespace thalweg
