// What layers say about a bad argument.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "thalweg/graph/scope.h"

namespace thalweg::layers {

// False if the scope has failed, or fails now: if x is missing, or with what
// `check` finds. The error begins with the kind of layer and the full name of this
// one.
bool CheckLayer(const Scope& s, absl::string_view layer, absl::string_view name, const Output& x,
                const std::function<absl::Status()>& check);

// For a check: an error unless x is of a floating type.
absl::Status CheckFloating(const Output& x);

}  // namespace thalweg::layers
