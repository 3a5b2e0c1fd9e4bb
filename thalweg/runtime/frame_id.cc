// SPDX-License-Identifier: Apache-2.0
#include "thalweg/runtime/frame_id.h"

namespace thalweg {

// MurmurHash64A (Austin Appleby, public domain) with TensorFlow's seed, reading
// bytes in little-endian order.
uint64_t FrameNameHash(absl::string_view name) {
  constexpr uint64_t kSeed = 0xDECAFCAFFE, kMultiplier = 0xc6a4a7935bd1e995;
  constexpr int kShift = 47;
  uint64_t hash = kSeed ^ (name.size() * kMultiplier);
  const auto word = [](absl::string_view bytes) {
    uint64_t value = 0;
    for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
  };
  for (; name.size() >= 8; name.remove_prefix(8)) {
    uint64_t k = word(name.substr(0, 8)) * kMultiplier;
    k = (k ^ k >> kShift) * kMultiplier;
    hash = (hash ^ k) * kMultiplier;
  }
  if (!name.empty()) hash = (hash ^ word(name)) * kMultiplier;
  hash = (hash ^ hash >> kShift) * kMultiplier;
  return hash ^ hash >> kShift;
}

}  // namespace thalweg
