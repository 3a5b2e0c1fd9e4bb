// SPDX-License-Identifier: Apache-2.0
// Op types with names like that of an op type that is missing, for error messages.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace thalweg {

// The name that takes the fewest changes of a letter to become `name`; "" if all of them take more than a third of its
// letters. Other versions of the op ("SumV2") come first.
std::string MostSimilarName(absl::string_view name, const std::vector<std::string>& names);

// The end of an error message about a missing op type: "; the most similar op type is 'Sum'", or nothing.
std::string SuggestSimilarOp(absl::string_view op);

}  // namespace thalweg
