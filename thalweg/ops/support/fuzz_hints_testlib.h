// Hints for the fuzz of kernels: inputs and attributes that fit together, for
// ops whose checks random ones hardly ever pass. What is changed from there on
// reaches the kernel itself.
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

// The first that names the op; nullptr if none does.
const FuzzHint* FindFuzzHint(absl::string_view op);
// Sets the attributes that the hint has.
void SetHintedAttrs(const FuzzHint& hint, const tensorflow::OpDef& op, tensorflow::NodeDef* node);
// A value for an input of this name, if the hint has one. For a resource it is
// the handle of a variable on `device`, of `element` type.
std::optional<Tensor> HintedInput(const FuzzHint& hint, absl::string_view input, DType dtype, DType element,
                                  uint64_t seed, Device& device);

}  // namespace thalweg
