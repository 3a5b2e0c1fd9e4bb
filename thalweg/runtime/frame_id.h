// SPDX-License-Identifier: Apache-2.0
// Numbers of loop frames, which are part of the keys of what crosses between
// tasks. They are those of TensorFlow 2, whose tasks may be on the other side.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace thalweg {

// Hash of the attribute frame_name.
uint64_t FrameNameHash(absl::string_view name);

// The frame that an iteration of another opens; the top level is frame 0,
// iteration 0.
inline uint64_t ChildFrameId(uint64_t frame, int64_t iteration, uint64_t name_hash) {
  const auto combine = [](uint64_t a, uint64_t b) { return a ^ (b + 0x9e3779b97f4a7800 + (a << 10) + (a >> 4)); };
  return combine(frame, combine(static_cast<uint64_t>(iteration), name_hash));
}

}  // namespace thalweg
