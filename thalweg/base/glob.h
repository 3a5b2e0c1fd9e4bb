// SPDX-License-Identifier: Apache-2.0
// Finds the paths that match a shell pattern.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/base/file_system.h"

namespace thalweg {

// The sorted paths of the matching files and folders. * and ? match anything but '/',
// [a-z] matches one character of a set, and a backslash escapes the next character.
// Names that begin with a dot are not special. Folders that cannot be listed count as
// empty.
absl::StatusOr<std::vector<std::string>> MatchingPaths(FileSystem& files, const std::string& pattern);

}  // namespace thalweg
