// SPDX-License-Identifier: Apache-2.0
// Copies past the caches: for results that nobody here reads soon. Memory that is written in
// the usual way is first read into the cache, which costs as much again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace thalweg {

// Others may read `to` after EndStreamingCopies().
inline void StreamingCopy(void* to, const void* from, size_t bytes) {
#if defined(__SSE2__)
  if (reinterpret_cast<uintptr_t>(to) % 16 == 0) {
    auto* target = static_cast<__m128i*>(to);
    const auto* source = static_cast<const __m128i*>(from);
    const size_t lines = bytes / 64;
    for (size_t i = 0; i < lines; ++i, target += 4, source += 4) {
      const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1), c = _mm_loadu_si128(source + 2),
                    d = _mm_loadu_si128(source + 3);
      _mm_stream_si128(target, a);
      _mm_stream_si128(target + 1, b);
      _mm_stream_si128(target + 2, c);
      _mm_stream_si128(target + 3, d);
    }
    to = target;
    from = source;
    bytes -= lines * 64;
  }
#endif
  std::memcpy(to, from, bytes);
}

inline void EndStreamingCopies() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace thalweg
