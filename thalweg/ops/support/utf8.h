// SPDX-License-Identifier: Apache-2.0
// Characters of UTF-8, one by one.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace thalweg {

inline constexpr char32_t kReplacementCharacter = 0xfffd;

struct Utf8Character {
  char32_t code = kReplacementCharacter;
  int bytes = 0;
  bool valid = false;
};

// Removes a character from the front. For invalid bytes, removes the longest prefix that could have begun
// a character, at least one byte, as Unicode recommends.
// REQUIRES: !text->empty()
inline Utf8Character TakeUtf8(absl::string_view* text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>((*text)[i]); };
  const unsigned first = byte(0);
  const int size = first < 0x80                    ? 1
                   : first >= 0xc2 && first < 0xe0 ? 2
                   : first >> 4 == 0xe             ? 3
                   : first >= 0xf0 && first < 0xf5 ? 4
                                                   : 0;
  Utf8Character c{.bytes = 1};
  if (size == 1) c = {first, 1, true};
  if (size > 1) {
    char32_t code = first & (0x7f >> size);
    // The range of the second byte excludes overlong forms, surrogates, and code points above the last one.
    const unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    while (c.bytes < size && static_cast<size_t>(c.bytes) < text->size()) {
      const unsigned next = byte(c.bytes);
      if (next < (c.bytes == 1 ? low : 0x80) || next > (c.bytes == 1 ? high : 0xbf)) break;
      code = code << 6 | (next & 0x3f);
      ++c.bytes;
    }
    if (c.bytes == size) c = {code, size, true};
  }
  text->remove_prefix(c.bytes);
  return c;
}

// REQUIRES: code <= 0x10ffff
inline void AppendUtf8(char32_t code, std::string* text) {
  if (code < 0x80) {
    text->push_back(static_cast<char>(code));
    return;
  }
  const int size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  text->push_back(static_cast<char>(0xf00 >> size | code >> (6 * (size - 1))));
  for (int i = size - 2; i >= 0; --i) text->push_back(static_cast<char>(0x80 | (code >> (6 * i) & 0x3f)));
}

}  // namespace thalweg
