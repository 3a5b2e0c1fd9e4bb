// SPDX-License-Identifier: Apache-2.0
// The state of a tf.random.Generator: a resource variable of int64 that holds a
// counter of two words, a key and whatever other algorithms need.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/kernel/philox.h"

namespace thalweg {

enum class AlgorithmFrom { kInput1, kState };  // kState: the first element of the state is its number

// The generator of the variable that input 0 names, and leaves it advanced by
// `samples` elements: TensorFlow reserves 256 blocks for each. Input 1 is the
// number of the algorithm unless the state has it.
absl::StatusOr<Philox> AdvanceState(KernelContext& context, uint64_t samples,
                                    AlgorithmFrom from = AlgorithmFrom::kInput1);

// UNIMPLEMENTED or INVALID_ARGUMENT unless input i is a scalar with the number of
// an algorithm that works here.
absl::Status CheckAlgorithm(KernelContext& context, int i);

}  // namespace thalweg
