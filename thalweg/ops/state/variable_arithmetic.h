// SPDX-License-Identifier: Apache-2.0
// Adding to and subtracting from variables, for the ref and the resource forms.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "thalweg/kernel/kernel.h"
#include "thalweg/kernel/variable.h"

namespace thalweg {

// variable += input 1, variable -= input 1. In place, or into new memory if
// a reader still holds the old value. INVALID_ARGUMENT with `mismatch` (or, if
// that is empty, a text with both shapes) if shapes differ.
absl::Status AddToVariable(KernelContext& context, Variable& variable, absl::string_view mismatch = "");
absl::Status SubtractFromVariable(KernelContext& context, Variable& variable, absl::string_view mismatch = "");

}  // namespace thalweg
