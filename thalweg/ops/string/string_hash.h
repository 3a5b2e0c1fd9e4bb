// SPDX-License-Identifier: Apache-2.0
// Hashes of strings that several ops use.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace thalweg {

// Austin Appleby's MurmurHash64A, with TensorFlow's seed.
uint64_t MurmurHash(absl::string_view text);
// SipHash-2-4 of Aumasson and Bernstein.
uint64_t SipHash(const uint64_t key[2], absl::string_view text);

}  // namespace thalweg
