// SPDX-License-Identifier: Apache-2.0
// Sounds as WAV files of 16 bits.
#pragma once

#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace thalweg {

// The file of samples in [-1, 1], sample by sample and channel by channel. Others
// are clipped.
std::string EncodeWav(absl::Span<const float> samples, uint32_t rate, uint16_t channels);

}  // namespace thalweg
