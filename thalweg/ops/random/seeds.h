// SPDX-License-Identifier: Apache-2.0
// The seeds of an op that draws random numbers.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "thalweg/base/status.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/kernel/philox.h"

namespace thalweg {

// Seeds a kernel's generator with the attributes "seed" and "seed2" of its node.
inline absl::Status SeedFromAttrs(const KernelInit& init, SharedPhilox* generator) {
  ASSIGN_OR_RETURN(const int64_t seed, init.Attr<int64_t>("seed"));
  ASSIGN_OR_RETURN(const int64_t seed2, init.Attr<int64_t>("seed2"));
  generator->Seed(seed, seed2);
  return absl::OkStatus();
}

}  // namespace thalweg
