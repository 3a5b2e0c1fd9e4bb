// SPDX-License-Identifier: Apache-2.0
// How much two boxes overlap.
#pragma once

#include <algorithm>

namespace thalweg {

// Intersection over union of two boxes [y1, x1, y2, x2], whose corners may come
// in any order. 0 if one of them is empty.
inline float BoxOverlap(const float* a, const float* b) {
  const auto low = [](const float* box, int k) { return std::min(box[k], box[k + 2]); };
  const auto high = [](const float* box, int k) { return std::max(box[k], box[k + 2]); };
  const auto area = [&](const float* box) { return (high(box, 0) - low(box, 0)) * (high(box, 1) - low(box, 1)); };
  if (area(a) <= 0 || area(b) <= 0) return 0;
  float common = 1;
  for (int k = 0; k < 2; ++k) {
    common *= std::max(std::min(high(a, k), high(b, k)) - std::max(low(a, k), low(b, k)), 0.0f);
  }
  return common / (area(a) + area(b) - common);
}

}  // namespace thalweg
