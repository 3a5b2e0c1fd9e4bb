// SPDX-License-Identifier: Apache-2.0
// Checks the arguments of layers.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "thalweg/graph/scope.h"

namespace thalweg::layers {

// Returns false if the scope has failed, if x is null, or if `check` returns an error. In the
// last two cases the scope fails with an error that begins with the kind and the full name of
// the layer.
bool CheckLayer(const Scope& s, absl::string_view layer, absl::string_view name, const Output& x,
                const std::function<absl::Status()>& check);

// An error unless x has a floating-point type. For use in `check`.
absl::Status CheckFloating(const Output& x);

}  // namespace thalweg::layers
