// Paths that match a pattern of the shell.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "thalweg/base/file_system.h"

namespace thalweg {

// Files and folders, sorted, whose paths match: * and ? stand for anything but
// '/', [a-z] for one of a set, a backslash takes the meaning away. A name that
// begins with a dot is matched like any other. Folders that cannot be listed
// have nothing in them.
absl::StatusOr<std::vector<std::string>> MatchingPaths(FileSystem& files, const std::string& pattern);

}  // namespace thalweg
