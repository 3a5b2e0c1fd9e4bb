// SPDX-License-Identifier: Apache-2.0
// Shortens lists of names for messages.
#pragma once

#include <string>
#include <vector>

namespace thalweg {

// "a, b, c and 7 more"
std::string AbbreviatedList(const std::vector<std::string>& names);

}  // namespace thalweg
