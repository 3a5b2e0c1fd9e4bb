// SPDX-License-Identifier: Apache-2.0
// Adds an Apply* operation in the form that its variables have.
#pragma once

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "thalweg/graph/scope.h"

namespace thalweg {

// `op` is the name of the ref form; inputs[0] is the variable.
inline Output AddApply(const Scope& s, absl::string_view op, std::vector<OpInput> inputs, std::vector<AttrArg> attrs) {
  const Output& var = inputs[0].outputs[0];
  const bool resource = var.node != nullptr && var.dtype() == kResource;
  return s.Add(resource ? absl::StrCat("Resource", op) : std::string(op), std::move(inputs), std::move(attrs));
}

}  // namespace thalweg
