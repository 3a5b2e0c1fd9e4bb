// Flags of subcommands: absl's, of which each subcommand takes some.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace thalweg::cli {

// Sets the flags named in `args`: "--name value", "--name=value", with one dash
// or two; "--name" and "--noname" for bools. A flag that holds a list may be
// given several times, and takes "a,b" too. INVALID_ARGUMENT for a flag that is
// not among `allowed`, a value that it cannot have, and an argument that is no
// flag.
absl::Status SetFlags(absl::Span<const std::string> args, const std::vector<std::string>& allowed);

// One line for each: "  --runs N  ...". REQUIRES: they exist.
std::string DescribeFlags(const std::vector<std::string>& names);

}  // namespace thalweg::cli
