// SPDX-License-Identifier: Apache-2.0
// The bytes of a message on a TCP link: a header, the text, the body. Numbers are little-endian.
//
// The first message of the connecting side is a greeting whose text is the token that the server
// gave it over gRPC. The server answers with a greeting without text. See tcp_link.h.
#pragma once

#include <bit>
#include <cstdint>

namespace thalweg {

struct TcpHeader {
  uint32_t magic = kMagic;
  uint32_t kind = 0;  // LinkMessage::Kind
  uint64_t call = 0;
  uint32_t code = 0;
  uint32_t text_bytes = 0;
  uint64_t body_bytes = 0;
  // The largest piece of the body. The receiver places the body such that this piece is aligned, so that
  // a tensor can use it in place.
  uint32_t large_offset = 0;
  uint32_t large_bytes = 0;

  // "TLK1". Another version of the format has another number, and then the tasks use gRPC.
  static constexpr uint32_t kMagic = 0x314b4c54;
  static constexpr uint32_t kAlignment = 64;
  static constexpr uint32_t kTokenBytes = 32;
  static constexpr uint32_t kMaxText = 32 << 10;
  static constexpr uint64_t kMaxBody = (uint64_t{1} << 31) - 1;  // as gRPC
};
static_assert(sizeof(TcpHeader) == 40 && std::endian::native == std::endian::little);

}  // namespace thalweg
