// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli), the checksum of TFRecord, checkpoints and event files.
// About 20 GB/s with SSE4.2, which is detected at run time; a table otherwise.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace thalweg {

// If `crc` is the checksum of some bytes, returns the checksum of those bytes followed
// by data[0, n). The checksum of no bytes is 0.
uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t n);

inline uint32_t Crc32c(const void* data, size_t n) { return ExtendCrc32c(0, data, n); }
inline uint32_t Crc32c(absl::string_view data) { return ExtendCrc32c(0, data.data(), data.size()); }

// Files store masked checksums, because a CRC of bytes that contain CRCs is weak.
// leveldb and TensorFlow use the same constants.
inline constexpr uint32_t kCrcMaskDelta = 0xa282ead8;
constexpr uint32_t MaskCrc(uint32_t crc) { return (crc >> 15 | crc << 17) + kCrcMaskDelta; }
constexpr uint32_t UnmaskCrc(uint32_t masked) {
  const uint32_t rotated = masked - kCrcMaskDelta;
  return rotated >> 17 | rotated << 15;
}

namespace internal {

// The implementation without SSE4.2, exposed for tests.
uint32_t ExtendCrc32cPortable(uint32_t crc, const void* data, size_t n);

}  // namespace internal
}  // namespace thalweg
