// SPDX-License-Identifier: Apache-2.0
// Where a part of a divided variable lies in the whole: checkpoints keep the
// parts as slices of one tensor, so that another division can read them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thalweg/tensor/shape.h"
#include "thalweg/train/layers/variable.h"

namespace thalweg {

// A part of a variable that is divided.
struct VariableSlice {
  std::string full_name;        // name of the whole variable, under which checkpoints have it
  Shape full_shape;             // shape of the whole variable
  std::vector<int64_t> offset;  // offset of the part in each dimension
  Shape shape;                  // shape of the part

  // The specification of the slice for save and restore ops, in TensorFlow's format: "10 4 0,5:0,4".
  std::string Spec() const;
};

// None if the variable is whole.
std::optional<VariableSlice> VariableSliceOf(const Var& variable);

// REQUIRES: `slice` has the shape of the variable.
void SetVariableSlice(const Var& variable, const VariableSlice& slice);

// Divides `slot`, a variable `<variable>/...` of the variable's shape, as the
// variable is divided.
void CopyVariableSlice(const Var& variable, const Var& slot);

// The name in a checkpoint: that of the whole, if the variable is a part.
std::string SavedName(const Var& variable);

}  // namespace thalweg
