// SPDX-License-Identifier: Apache-2.0
// Hints for fuzzing kernels: inputs and attributes that fit together, for ops whose checks random ones
// hardly ever pass. Mutations of these inputs reach the kernel itself.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "thalweg/kernel/device.h"
#include "thalweg/proto/graph.pb.h"
#include "thalweg/tensor/tensor.h"

namespace thalweg {

// See the table in the .cc.
struct FuzzHint {
  const char* ops;
  const char* inputs;
  const char* attrs;
};

// The first hint for the op; nullptr if there is none.
const FuzzHint* FindFuzzHint(absl::string_view op);
// Sets the attributes that the hint specifies.
void SetHintedAttrs(const FuzzHint& hint, const tensorflow::OpDef& op, tensorflow::NodeDef* node);
// The hinted value for an input, if there is one. For a resource it is the handle of a variable of type
// `element` on `device`.
std::optional<Tensor> HintedInput(const FuzzHint& hint, absl::string_view input, DType dtype, DType element,
                                  uint64_t seed, Device& device);

}  // namespace thalweg
