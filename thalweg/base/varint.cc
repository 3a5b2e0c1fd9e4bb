// SPDX-License-Identifier: Apache-2.0
#include "thalweg/base/varint.h"

namespace thalweg {

bool TakeVarint(absl::string_view* bytes, uint64_t* value) {
  *value = 0;
  for (int i = 0; i < 10 && i < static_cast<int>(bytes->size()); ++i) {
    const uint64_t byte = static_cast<unsigned char>((*bytes)[i]);
    if (i == 9 && byte > 1) return false;
    *value |= (byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      bytes->remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

void AppendVarint(std::string* bytes, uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes->push_back(static_cast<char>(value | 0x80));
  bytes->push_back(static_cast<char>(value));
}

}  // namespace thalweg
