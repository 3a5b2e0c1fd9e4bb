// Shared by the ops of connectionist temporal classification (CTC).
#pragma once

#include "absl/status/status.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// Checks logits [time, batch, classes] and the lengths of the sequences.
absl::Status CheckSequences(const Tensor& inputs, const Tensor& lengths);

}  // namespace thalweg
